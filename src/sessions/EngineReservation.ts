import type { Timer } from '../observe/clock.ts';
import { SegueError } from '../protocol/errors.ts';
import type { InjectedFault, PresentedIn, SessionChannels } from '../streams/messages.ts';
import type { SessionFork, SessionOptions } from './session_options.ts';

/** Engine's answer to `session.open`. */
const OPEN_WATCHDOG_MS = 5_000;
/** Engine's answer to `session.close`: a cancelled task has 2 s. */
const CLOSE_WATCHDOG_MS = 2_000;

export interface ReservationOptions extends Pick<SessionOptions, 'returning' | 'forked' | 'id' | 'card' | 'program' | 'seed' | 'prompt' | 'image' | 'adapter' | 'plan' | 'replay' | 'transform' | 'tenant' | 'engine' | 'clock' | 'log'> {
  readonly channels: SessionChannels;
  /** The engine is gone or says nothing. */
  readonly onLost: (error: SegueError) => void;
}

/** A session's place in the engine: asked for, held while nobody watches, given back. */
export class EngineReservation {
  readonly #options: ReservationOptions;
  readonly #closed = Promise.withResolvers<void>();
  #openTimer: Timer | null = null;
  #holds = 0;
  #held = false;

  constructor(options: ReservationOptions) {
    this.#options = options;
  }

  /** It was asked for, and the engine hasn't said that it is free. */
  get held(): boolean {
    return this.#held;
  }

  /** Asks for it; the engine answers `session.opened` or `session.refused`. */
  request(): void {
    const { engine, clock, id, card, program, seed, prompt, image, adapter = null, plan = null, replay, transform, tenant, channels, onLost, returning, forked = null } = this.#options;
    this.#held = true;
    const kept = returning !== null ? { story: returning.story } : forked === null ? {} : pastOf(forked);
    this.#openTimer = clock.schedule(clock.now() + OPEN_WATCHDOG_MS, () => onLost(new SegueError('timed_out', 'the engine did not answer')));
    if (!engine.send({ type: 'session.open', sessionId: id, model: card.modelId, program, seed, prompt, image, adapter, ...(plan === null ? {} : { plan }), ...(transform?.strength === undefined ? {} : { strength: transform.strength }), ...(replay === undefined ? {} : { replay }), tenant, channels, ...kept })) onLost(new SegueError('engine_unavailable', 'the engine is gone'));
  }

  /** The engine has answered, or nobody waits for it any more. */
  settle(): void {
    this.#openTimer?.cancel();
    this.#openTimer = null;
  }

  /** Pauses and resumes on the session's own account; no client waits for the answer. */
  hold(request: 'pause' | 'resume', at: { readonly epoch: number; readonly conditioningVersion: number }): void {
    this.#holds += 1;
    this.#options.engine.send({ type: 'session.request', sessionId: this.#options.id, requestId: `presence:${this.#holds}`, ...at, request });
  }

  /** Test mode: the engine makes the session's next unit fail. */
  injectFault(fault: InjectedFault): void {
    this.#options.engine.send({ type: 'fault.inject', sessionId: this.#options.id, fault });
  }

  /** The engine holds nothing for the session any more. */
  onClosed(): void {
    this.#held = false;
    this.#closed.resolve();
  }

  /** Gives it back; resolves when the engine says so, or after its watchdog. */
  async release(presented: PresentedIn | null): Promise<void> {
    const { engine, clock, log, id } = this.#options;
    if (!engine.send({ type: 'session.close', sessionId: id, ...(presented === null ? {} : { presented }) })) {
      this.#held = false;
      return;
    }
    const watchdog = clock.schedule(clock.now() + CLOSE_WATCHDOG_MS, () => {
      log.warn('the engine did not confirm the end of the session');
      this.#closed.resolve();
    });
    await this.#closed.promise;
    this.#held = false;
    watchdog.cancel();
  }
}

/** Branches of the one whose past it was are not its own: what it has is a copy of the story in force. */
function pastOf({ lineage, story, from, to90k }: SessionFork) {
  if (story === undefined) return { lineage, fork: { from, to90k } };
  return story === null ? { lineage } : { lineage, story: { fingerprint: story.fingerprint, chunks: story.chunks, snapshot: story.snapshot } };
}
