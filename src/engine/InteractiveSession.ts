import type { Clock, Timer } from '../observe/clock.ts';
import { SegueError } from '../protocol/errors.ts';
import type { NamedPlan } from '../protocol/named_plan.ts';
import type { AdapterInForce } from '../protocol/session_adapter.ts';
import type { MediaEvent } from '../streams/media_events.ts';
import type { MediaFormat, MediaTime90k } from '../streams/media_time.ts';
import type { ControlToEngine, EngineRequest, EngineToControl, MediaToEngine } from '../streams/messages.ts';
import { SessionWords } from '../streams/session_words.ts';
import { slotPools } from './EngineRuns.ts';
import { FramePlayout, type PlayoutFrame } from './FramePlayout.ts';
import { fencing } from './scheduler/RequestScheduler.ts';
import type { RequestOutcome, SessionEvent, SessionFrame, SessionOptions, SessionRequest } from './session_types.ts';

/** What a session needs of its engine. */
export interface SessionLink {
  readonly clock: Clock;
  readonly format: MediaFormat;
  readonly model: string;
  receive(message: ControlToEngine): void;
  receiveMedia(message: MediaToEngine): void;
  /** Nothing comes for the session any more. */
  ended(): void;
}

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;
type RequestBody = DistributiveOmit<EngineRequest, 'type' | 'sessionId' | 'requestId' | 'epoch' | 'conditioningVersion' | 'presented90k'>;

/** Events other than frames that wait for whoever takes them. */
const MAX_NOTICES = 256;

/**
 * A live session in this process, watched by whoever iterates over it: frames come when they are due, each when you ask for the next; what you have taken is what was seen, and a
 * fencing request (`interrupt`, `redirect`, `cut`, `rewind`) goes on from there: in the call itself every frame that waits is dropped. Leaving the iteration leaves the session open;
 * it can be iterated over again, by one at a time.
 *
 * @example
 * await using session = engine.session({ prompt: 'forest at dusk', seed: 7 });
 * for await (const event of session) if (event.type === 'frame' && event.start90k === 90_000) session.redirect('desert at dawn');
 */
export class InteractiveSession implements AsyncDisposable {
  readonly sessionId: string;
  readonly #link: SessionLink;
  readonly #words = new SessionWords();
  readonly #pools: ReturnType<typeof slotPools>;
  readonly #playout: FramePlayout;
  readonly #notices: SessionEvent[] = [];
  readonly #answers = new Map<string, { resolve: (outcome: RequestOutcome) => void; reject: (error: SegueError) => void }>();
  readonly #ended = Promise.withResolvers<void>();
  readonly #signal: AbortSignal | undefined;
  readonly #opening: ControlToEngine;
  readonly #abort = (): void => void this.close();
  #dropped = 0;
  #numRequests = 0;
  #presented90k = 0;
  #wake: (() => void) | null = null;
  #taking = false;
  #opened = false;
  #closed = false;
  #error: SegueError | null = null;

  /** @throws {SegueError} `at_capacity`, `program_not_found`, `prompt_not_understood` and what else the engine refuses. @throws {TypeError} for a buffer out of range. */
  constructor(sessionId: string, link: SessionLink, options: SessionOptions & { readonly program: string }) {
    const { program, prompt = null, image = null, adapter = null, plan, strength, seed = 0, buffer = 24, signal } = options;
    if (!Number.isInteger(buffer) || buffer < 24 || buffer > 64) throw new TypeError(`buffer is 24 to 64 frames, got ${buffer}`);
    signal?.throwIfAborted();
    this.sessionId = sessionId;
    this.#link = link;
    this.#signal = signal;
    this.#pools = slotPools(link.format, buffer);
    this.#playout = new FramePlayout({ clock: link.clock, words: this.#words, pools: this.#pools, anchored: () => link.receiveMedia({ type: 'media.anchored', sessionId }) });
    this.#opening = { type: 'session.open', sessionId, model: link.model, program, seed, prompt, image, adapter, ...(plan === undefined ? {} : { plan }), ...(strength === undefined ? {} : { strength }), tenant: 'library', channels: { words: this.#words.buffer, video: this.#pools.video.descriptor, audio: this.#pools.audio.descriptor } };
  }

  /** Asks the engine for a place. Called once, by the engine, when it can route what comes back. @throws {SegueError} where it is refused. */
  open(): void {
    this.#link.receive(this.#opening);
    if (this.#error !== null) throw this.#error;
    if (!this.#opened) throw new SegueError('engine_unavailable', 'the engine was closed');
    this.#signal?.addEventListener('abort', this.#abort, { once: true });
  }

  get epoch(): number {
    return this.#words.epoch;
  }

  /** End of the last frame that you took, in 1/90,000 s of the story. */
  get presented90k(): MediaTime90k {
    return this.#presented90k;
  }

  get closed(): boolean {
    return this.#closed;
  }

  // ---------------------------------------------------------------- requests

  /** Another scene. `seamless` doesn't fence: what waits is still given, and the new scene follows without a gap. */
  redirect(prompt: string | null, { seamless = false, plan, adapter }: { readonly seamless?: boolean; readonly plan?: NamedPlan; readonly adapter?: AdapterInForce | null } = {}): SessionRequest {
    return this.#request({ request: 'redirect', prompt, ...(plan === undefined ? {} : { plan }), ...(adapter === undefined ? {} : { adapter }), seamless });
  }

  /** A new shot: as a redirect, without the picture before it. */
  cut(prompt: string): SessionRequest {
    return this.#request({ request: 'cut', prompt });
  }

  /** A seamless redirect by degrees, over so many chunks. */
  blend(prompt: string, chunks: number): SessionRequest {
    return this.#request({ request: 'blend', prompt, chunks });
  }

  /** Stops at once, at what you took last; `resume` or another scene goes on. */
  interrupt(): SessionRequest {
    return this.#request({ request: 'interrupt' });
  }

  pause(): SessionRequest {
    this.#playout.pause(true);
    return this.#request({ request: 'pause' });
  }

  resume(): SessionRequest {
    this.#playout.pause(false);
    return this.#request({ request: 'resume' });
  }

  /** Goes back to an earlier moment that you were given, as another future. What isn't in memory any more is `not_kept`. */
  rewind(to90k: MediaTime90k, { exact = false }: { readonly exact?: boolean } = {}): SessionRequest {
    return this.#request({ request: 'rewind', to90k: Math.min(to90k, this.#presented90k), exact });
  }

  /** What is held from now on; takes effect with the next step that is planned. Returns its sequence number, which frames name. */
  action({ steer, speed }: { readonly steer: number; readonly speed: number }): number {
    this.#checkOpen();
    const { sequence, leftPresses, rightPresses } = this.#words.action;
    this.#words.writeAction({ sequence: sequence + 1, steer, speed, leftPresses: leftPresses + Number(steer < 0), rightPresses: rightPresses + Number(steer > 0) });
    this.#link.receiveMedia({ type: 'media.action', sessionId: this.sessionId });
    return sequence + 1;
  }

  /** The next chunk of the video that the session makes anew: RGB of each of its frames, of the model's size. The newest that nothing was made of is kept. */
  pushVideo(frames: readonly SharedArrayBuffer[]): void {
    this.#checkOpen();
    this.#link.receiveMedia({ type: 'media.frames', sessionId: this.sessionId, frames });
  }

  #request(body: RequestBody): SessionRequest {
    this.#checkOpen();
    const id = `request-${++this.#numRequests}`;
    const fences = fencing(body as EngineRequest);
    const epoch = fences ? this.#words.raiseEpoch() : this.#words.epoch;
    if (fences) this.#playout.fence();
    else if (body.request === 'redirect' || body.request === 'blend') this.#playout.pause(false);
    const { promise, resolve, reject } = Promise.withResolvers<RequestOutcome>();
    // Whoever doesn't look at the answer isn't ended by it.
    promise.catch(() => undefined);
    this.#answers.set(id, { resolve, reject });
    this.#link.receive({ type: 'session.request', sessionId: this.sessionId, requestId: id, epoch, conditioningVersion: this.#numRequests, presented90k: this.#presented90k, ...body } as EngineRequest);
    this.#notify();
    return { id, epoch, answer: promise };
  }

  #checkOpen(): void {
    if (this.#closed) throw new SegueError('session_closed', `session ${this.sessionId} is closed`);
  }

  // ---------------------------------------------------------------- events

  async *[Symbol.asyncIterator](): AsyncGenerator<SessionEvent, void, undefined> {
    if (this.#taking) throw new SegueError('conflict', `session ${this.sessionId} is iterated over already`);
    this.#taking = true;
    try {
      for (;;) {
        const notice = this.#notices.shift();
        if (this.#dropped > 0) {
          const events = this.#dropped;
          this.#dropped = 0;
          yield { type: 'dropped', events };
        }
        if (notice !== undefined) {
          yield notice;
          continue;
        }
        if (this.#error !== null) throw this.#error;
        if (this.#closed) return;
        const step = this.#playout.next();
        if (step !== null && 'frame' in step) yield this.#taken(step.frame);
        else await this.#something(step?.atMs ?? null);
      }
    } finally {
      this.#taking = false;
    }
  }

  /** Called by the engine: media of this session. */
  onMedia(event: MediaEvent): void {
    if (event.type === 'media.chunk') {
      this.#playout.push(event);
      if (this.#closed) this.#playout.close();
    } else if (event.type === 'media.recall') this.#playout.recall();
    this.#notify();
  }

  /** Called by the engine: what it says of this session. */
  onControl(message: EngineToControl): void {
    switch (message.type) {
      case 'session.opened':
        this.#opened = true;
        break;
      case 'session.refused':
        this.#error = SegueError.from(message.error);
        this.#closed = true;
        this.#end();
        break;
      case 'request.applied': {
        const { how, chunk, step, media90k, elapsedMs, warnings } = message;
        this.#answer(message.requestId)?.resolve({ outcome: 'applied', how, chunk, step, media90k, elapsedMs, warnings });
        break;
      }
      case 'request.superseded':
        this.#answer(message.requestId)?.resolve({ outcome: 'superseded', by: message.by });
        break;
      case 'request.failed':
        this.#answer(message.requestId)?.reject(SegueError.from(message.error));
        break;
      case 'session.rewound':
        this.#presented90k = message.media90k;
        break;
      case 'story.wanted': {
        // Nothing is kept beyond memory; said when the engine has done what it is at.
        const error = new SegueError('not_kept', 'a session of the library keeps what is in memory only').toBody();
        setImmediate(() => this.#link.receive({ type: 'session.story', sessionId: this.sessionId, requestId: message.requestId, story: null, error }));
        break;
      }
      case 'text': {
        const { stream, requestId, text, attributes, complete, whole } = message;
        this.#notice({ type: 'text', stream, requestId, text, complete, ...(attributes === undefined ? {} : { attributes }), ...(whole === undefined ? {} : { whole }) });
        break;
      }
      case 'session.degraded':
        this.#notice({ type: 'degraded', degraded: message.degraded });
        break;
      case 'session.fault':
        if (message.fatal) {
          this.#error = SegueError.from(message.error);
          void this.close();
        } else this.#notice({ type: 'fault', error: SegueError.from(message.error) });
        break;
      case 'session.closed':
        this.#end();
        break;
      default:
    }
    this.#notify();
  }

  /** Ends the session and waits until nothing of it is left; what waits is dropped, what is unanswered fails with `session_closed`. Idempotent. */
  async close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = true;
      this.#signal?.removeEventListener('abort', this.#abort);
      this.#words.markClosed();
      this.#link.receive({ type: 'session.close', sessionId: this.sessionId });
      this.#playout.close();
      this.#notices.length = 0;
      for (const { reject } of this.#answers.values()) reject(new SegueError('session_closed', 'the session has ended'));
      this.#answers.clear();
      this.#notify();
    }
    await this.#ended.promise;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #end(): void {
    this.#link.ended();
    this.#ended.resolve();
  }

  #answer(requestId: string) {
    const answer = this.#answers.get(requestId);
    this.#answers.delete(requestId);
    return answer;
  }

  #notice(event: SessionEvent): void {
    if (this.#closed) return;
    this.#notices.push(event);
    if (this.#notices.length <= MAX_NOTICES) return;
    this.#notices.shift();
    this.#dropped++;
  }

  /** From here on the frame was seen: the story goes on from it whatever is asked for next. */
  #taken({ video, audio }: PlayoutFrame): SessionFrame {
    const pixels = this.#pools.video.bytes(video.slot).slice();
    const sound = this.#pools.audio.bytes(audio.slot).slice(0, audio.samples * 2);
    this.#pools.video.release(video.slot);
    this.#pools.audio.release(audio.slot);
    const { start90k, end90k, chunk, frameInChunk, origin, epoch, conditioningVersion, actionSequence, events } = video;
    this.#presented90k = end90k;
    this.#link.receiveMedia({ type: 'media.presented', sessionId: this.sessionId, epoch, media90k: end90k });
    return { type: 'frame', pixels, samples: new Int16Array(sound.buffer, 0, audio.samples), start90k, end90k, chunk, frameInChunk, origin, epoch, conditioningVersion, actionSequence, requests: events };
  }

  #something(atMs: number | null): Promise<void> {
    return new Promise((resolve) => {
      let timer: Timer | null = null;
      this.#wake = () => {
        timer?.cancel();
        resolve();
      };
      if (atMs !== null) timer = this.#link.clock.schedule(atMs, () => this.#notify());
    });
  }

  #notify(): void {
    this.#wake?.();
    this.#wake = null;
  }
}
