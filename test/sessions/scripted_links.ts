/** Scripted stand-ins for the engine and the media thread, for tests whose timing must be exact. They answer at once unless told to be silent. */
import type { Link, LinkListener } from '../../src/api/ThreadLink.ts';
import { fences } from '../../src/protocol/channel.ts';
import { SegueError, type ErrorCode } from '../../src/protocol/errors.ts';
import type { ChannelLabel, ControlToEngine, ControlToMedia, EngineCard, EngineToControl, MediaToControl } from '../../src/streams/messages.ts';
import type { PromptReader } from '../../src/sessions/ports.ts';
import type { KeptChunk } from '../../src/streams/storage_messages.ts';
import { SessionWords } from '../../src/streams/session_words.ts';

export const CARD: EngineCard = {
  modelId: 'drive',
  weightsVersion: 'w1',
  fingerprint: 'test',
  format: { width: 32, height: 16, framesPerSecond: 12, audioSampleRate: 24_000 },
  framesPerChunk: 2,
  maxSessions: 2,
  deviceSecondsPerSecond: 0.4,
  cost: [],
  vocabulary: ['snowy', 'mountains'],
  adapters: [{ id: 'noir', title: 'Noir' }, { id: 'glow', title: 'Glow' }],
};

/** Understands everything but `qwertz`, and passes over `unicorns`; knows attributes `place` and `time`. */
export const PROMPTS: PromptReader = {
  read: (prompt) => {
    if (prompt.includes('qwertz')) throw new SegueError('prompt_not_understood', 'nothing in this prompt is known', { param: 'prompt' });
    return prompt.includes('unicorns') ? [{ code: 'unknown_words', words: ['unicorns'], message: 'Not known: unicorns.' }] : [];
  },
  readPlan: (plan) => {
    const unknown = Object.keys(plan).find((name) => name !== 'place' && name !== 'time');
    if (unknown !== undefined) throw new SegueError('plan_not_usable', `no attribute ${unknown}`, { param: `plan.${unknown}` });
  },
  describePlan: (plan) => ({ words: Object.values(plan).join(' '), attributes: Object.fromEntries(Object.entries(plan).map(([name, value]) => [name, `${name} ${value}`])) }),
};

type EngineRequest = Extract<ControlToEngine, { type: 'session.request' }>;

abstract class ScriptedLink<In, Out> implements Link<In, Out> {
  readonly sent: In[] = [];
  alive = true;
  #endExpected = false;
  #listener: LinkListener<Out> | null = null;

  send(message: In): boolean {
    if (!this.alive) return false;
    this.sent.push(message);
    // A thread never answers within the call.
    queueMicrotask(() => this.alive && this.receive(message));
    return true;
  }

  listen(listener: LinkListener<Out>): void {
    this.#listener = listener;
    queueMicrotask(() => this.started());
  }

  emit(message: Out): void {
    this.#listener?.message(message);
  }

  crash(error: Error): void {
    this.alive = false;
    this.#listener?.crashed(error);
  }

  expectEnd(): void {
    this.#endExpected = true;
  }

  /** Ends by itself, as a thread does that has drained. */
  protected exit(): void {
    this.alive = false;
    if (!this.#endExpected) this.#listener?.crashed(new Error('ended'));
  }

  close(): Promise<void> {
    this.alive = false;
    return Promise.resolve();
  }

  protected abstract receive(message: In): void;
  protected abstract started(): void;
}

export class ScriptedEngine extends ScriptedLink<ControlToEngine, EngineToControl> {
  capacity: number;
  /** Requests are left unanswered. */
  silent = false;
  /** `session.open` and `session.close` are left unanswered. */
  deaf = false;
  readonly open = new Set<string>();
  /** Nothing of any session’s past. */
  notInMemory = false;
  /** What it holds of frames that are in no whole chunk on disk. */
  seen: KeptChunk | null = null;

  constructor(capacity = CARD.maxSessions) {
    super();
    this.capacity = capacity;
  }

  get requests(): EngineRequest[] {
    return this.sent.filter((message) => message.type === 'session.request');
  }

  protected started(): void {
    this.emit({ type: 'engine.ready', card: CARD });
  }

  protected receive(message: ControlToEngine): void {
    switch (message.type) {
      case 'session.open': {
        if (this.deaf) return;
        const { sessionId } = message;
        if (this.open.size >= this.capacity) return this.emit({ type: 'session.refused', sessionId, error: new SegueError('at_capacity', 'full').toBody() });
        if (message.fork !== undefined && this.notInMemory) return this.emit({ type: 'session.refused', sessionId, error: new SegueError('not_kept', 'not in memory').toBody() });
        this.open.add(sessionId);
        return this.emit({ type: 'session.opened', sessionId, format: CARD.format });
      }
      case 'session.close':
        if (this.deaf) return;
        this.open.delete(message.sessionId);
        return this.emit({ type: 'session.closed', sessionId: message.sessionId });
      case 'session.request':
        if (!this.silent) this.apply(message);
        return;
      case 'frame.find':
        return this.emit({ type: 'frame.found', request: message.request, chunk: this.seen });
      case 'frame.decode':
        if (this.silent) return;
        return this.emit({ type: 'frame.decoded', request: message.request, rgb: new Uint8Array(CARD.format.width * CARD.format.height * 3).fill(message.frame === 0 ? 64 : 128) });
      case 'engine.drain':
        this.emit({ type: 'engine.drained' });
        return this.exit();
      case 'fault.inject':
        return;
    }
  }

  apply(message: EngineRequest): void {
    const { sessionId, requestId, epoch, conditioningVersion, request } = message;
    if (request === 'adopt') return;
    const how = ({ interrupt: 'interrupted', redirect: 'restart', cut: 'cut', blend: 'blend', rewind: 'rewind', hold: 'held', release: 'released', pause: 'paused', resume: 'resumed' } as const)[request];
    this.emit({ type: 'request.applied', sessionId, requestId, how, epoch, conditioningVersion, chunk: 3, step: 0, media90k: 15_000, predictedMs: null, elapsedMs: 12, warnings: [], ...(message.request === 'redirect' ? { adapter: message.adapter ?? null } : {}) });
  }
}

export class ScriptedMedia extends ScriptedLink<ControlToMedia, MediaToControl> {
  /** Offers are left unanswered. */
  silent = false;
  /** Injected messages are lost. */
  deaf = false;
  /** The ends of sessions are left unanswered. */
  lingering = false;
  readonly words = new Map<string, SessionWords>();
  readonly #relays = new Set<string>();
  readonly #fenced = new Set<string>();

  /** What was sent on a connection's channel, parsed. */
  texts(connectionId: string, channel: ChannelLabel = 'control'): Record<string, unknown>[] {
    return this.sent.flatMap((message) => (message.type === 'channel.send' && message.connectionId === connectionId && message.channel === channel ? [JSON.parse(message.text) as Record<string, unknown>] : []));
  }

  /** A message arrives on a data channel. Fences first, as the media thread does, unless told not to. */
  arrive(sessionId: string, connectionId: string | null, channel: ChannelLabel, message: unknown, { fence }: { readonly fence?: boolean } = {}): void {
    const text = typeof message === 'string' ? message : JSON.stringify(message);
    const { type, id, seamless } = (typeof message === 'object' && message !== null ? message : {}) as { type?: string; id?: string; seamless?: boolean };
    const raise = fence ?? (type !== undefined && id !== undefined && fences({ type, seamless }) && !this.#fenced.has(id));
    let fencedEpoch: number | null = null;
    if (raise) {
      fencedEpoch = this.words.get(sessionId)!.raiseEpoch();
      if (id !== undefined) this.#fenced.add(id);
    }
    this.emit({ type: 'channel.message', sessionId, connectionId, channel, text, fencedEpoch, held: fencedEpoch === null ? null : { media90k: 7_500, source: 'client' } });
  }

  protected started(): void {
    this.emit({ type: 'media.ready' });
  }

  protected receive(message: ControlToMedia): void {
    switch (message.type) {
      case 'session.open':
        this.words.set(message.sessionId, new SessionWords(message.channels.words));
        return;
      case 'connection.offer':
        if (this.silent) return;
        if (message.sdp.includes('m=')) return this.emit({ type: 'connection.answer', sessionId: message.sessionId, connectionId: message.connectionId, sdp: 'v=0 answer' });
        return this.#fail(message.sessionId, message.connectionId, 'bad_sdp');
      case 'connection.relay':
        this.#relays.add(message.connectionId);
        return this.emit({ type: 'connection.state', sessionId: message.sessionId, connectionId: message.connectionId, state: 'connected' });
      case 'connection.close':
        return this.emit({ type: 'connection.state', sessionId: message.sessionId, connectionId: message.connectionId, state: 'closed' });
      case 'session.close':
        if (this.lingering) return;
        for (const { sessionId, connectionId } of this.sent.filter((sent) => sent.type === 'connection.offer' || sent.type === 'connection.relay')) {
          if (sessionId === message.sessionId) this.emit({ type: 'connection.state', sessionId, connectionId, state: 'closed' });
        }
        return;
      case 'channel.send':
        if (this.#relays.has(message.connectionId)) this.emit({ type: 'relay.text', sessionId: message.sessionId, connectionId: message.connectionId, channel: message.channel, text: message.text });
        return;
      case 'channel.inject':
        if (!this.deaf) this.arrive(message.sessionId, message.connectionId, message.channel, JSON.parse(message.text));
        return;
      case 'media.drain':
        this.emit({ type: 'media.drained' });
        return this.exit();
      case 'connection.candidate':
      case 'connection.keyframe':
      case 'relay.taken':
        return;
    }
  }

  #fail(sessionId: string, connectionId: string, code: ErrorCode): void {
    this.emit({ type: 'connection.failed', sessionId, connectionId, error: new SegueError(code, 'not SDP').toBody() });
  }
}
