import type { Clock, Timer } from '../observe/clock.ts';
import { asksForScene, type SessionRequest } from '../protocol/channel.ts';
import type { SessionStatus } from './SessionStatus.ts';

export interface SessionFlowOptions {
  readonly clock: Clock;
  readonly status: SessionStatus;
  /** Without a connection: kept this long. */
  readonly orphanMs: number;
  /** Pauses or resumes the engine on the session's own account; no client waits for the answer. */
  readonly hold: (request: 'pause' | 'resume') => void;
  readonly onJoined: () => void;
  /** Nobody came, or came back. */
  readonly expire: (reason: string) => void;
}

/** Whether a session's media moves: paused or interrupted by its driver, held while nobody watches, given up when nobody comes back. */
export class SessionFlow {
  readonly #options: SessionFlowOptions;
  #paused = false;
  /** Frozen until the next redirect or resume. */
  #interrupted = false;
  /** What a redirect that turns out not to be understood, or a rewind to what isn't kept, leaves as it was. */
  #before: { readonly requestId: string; readonly paused: boolean; readonly interrupted: boolean } | null = null;
  #orphanTimer: Timer | null = null;
  #closed = false;

  constructor(options: SessionFlowOptions) {
    this.#options = options;
  }

  /** Frozen by its driver. */
  get interrupted(): boolean {
    return this.#interrupted;
  }

  /** As its driver had left it, in a session that comes back. */
  restore(flow: 'running' | 'paused' | 'interrupted'): void {
    this.#paused = flow === 'paused';
    this.#interrupted = flow === 'interrupted';
    if (flow !== 'running') this.#options.hold('pause');
  }

  /** The session is open: somebody should come. */
  awaitConnection(): void {
    const { clock, orphanMs, status, expire } = this.#options;
    if (this.#closed) return;
    this.#orphanTimer = clock.schedule(clock.now() + orphanMs, () => {
      const seconds = Math.round(orphanMs / 1000);
      expire(status.state === 'connecting' ? `nobody connected within ${seconds} s` : `no connection for ${seconds} s`);
    });
  }

  accepted(requestId: string, request: SessionRequest): void {
    const { type } = request;
    // Provisional: whatever was in force is again when it ends.
    if (type === 'hold' || type === 'release' || type === 'fork') return;
    // As in the media thread, this ends a pause: whoever asks for something else wants to see it.
    this.#before = asksForScene(request) || type === 'rewind' ? { requestId, paused: this.#paused, interrupted: this.#interrupted } : null;
    if (type !== 'pause') this.#interrupted = type === 'interrupt';
    this.#setPaused(type === 'pause');
  }

  /** A request failed: what it had changed is as before. */
  failed(requestId: string): void {
    if (this.#before?.requestId !== requestId) return;
    const { paused, interrupted } = this.#before;
    this.#before = null;
    this.#interrupted = interrupted;
    this.#setPaused(paused);
  }

  /** Connections came or went; so many carry media now. */
  presence(connections: number): void {
    const { status, hold, onJoined } = this.#options;
    const { state } = status;
    if (this.#closed) return;
    if (connections > 0) {
      if (state !== 'connecting' && state !== 'orphaned') return;
      this.#orphanTimer?.cancel();
      this.#orphanTimer = null;
      status.move('connected');
      if (this.#paused) status.move('paused');
      // A session that was frozen by its driver stays so: `resume` would end that too.
      else if (state === 'orphaned' && !this.#interrupted) hold('resume');
      onJoined();
    } else if (state === 'active' || state === 'paused') {
      // Nobody watches: nothing is generated, so that nothing is remembered that nobody saw.
      if (!this.#paused && !this.#interrupted) hold('pause');
      status.move('lost');
      this.awaitConnection();
    }
  }

  /** Idempotent. */
  close(): void {
    this.#closed = true;
    this.#orphanTimer?.cancel();
  }

  #setPaused(paused: boolean): void {
    if (this.#paused === paused) return;
    this.#paused = paused;
    this.#options.status.move(paused ? 'paused' : 'resumed');
  }
}
