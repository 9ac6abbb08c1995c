import type { Clock } from '../observe/clock.ts';
import { PREROLL_MS } from '../media/PicturePump.ts';
import type { MediaEvent, VideoChunk } from '../streams/media_events.ts';
import { mediaTime90kToMs } from '../streams/media_time.ts';
import type { ControlToEngine, EngineRequest, MediaToEngine, SessionChannels } from '../streams/messages.ts';
import { SessionWords } from '../streams/session_words.ts';
import { SharedPool } from '../streams/shared_pool.ts';

/** From a frame's sending to its painting in a nearby browser. */
const PAINT_MS = 60;
/** A page reports what it painted this often. */
const REPORT_MS = 100;
/** From the press to the media thread, and from there to the engine. */
const REQUEST_MS = 4;
/** Sound leaves in packets: it is taken out before its picture. */
const PACKET_MS = 20;
const SLOTS = 24;

/** A frame that was sent, and when. */
export interface SentFrame {
  readonly atMs: number;
  readonly chunk: VideoChunk;
  /** How long after its time it came; 0 where it was there. The first of an epoch has no time yet. */
  readonly lateMs: number;
  /** RGB; empty where nothing is computed. */
  readonly rgb: Uint8Array;
}

/** The engine, as a viewer reaches it. */
export interface ViewedEngine {
  receive(message: ControlToEngine): void;
  receiveMedia(message: MediaToEngine): void;
}

export interface SimulatedViewerOptions {
  readonly sessionId: string;
  readonly clock: Clock;
  readonly engine: ViewedEngine;
  readonly pictureBytes: number;
  readonly soundBytes: number;
  /** Keeps the pictures. */
  readonly keeps: boolean;
  readonly onFrame: (frame: SentFrame) => void;
}

/** A wish, as a request without what every request has. */
type Asked = EngineRequest extends infer Request ? (Request extends EngineRequest ? Omit<Request, 'type' | 'sessionId' | 'requestId' | 'epoch' | 'conditioningVersion' | 'presented90k'> : never) : never;

/** One session's media thread and page, on a virtual clock: paces, fences, reports what was painted, presses keys. */
export class SimulatedViewer {
  readonly words = new SessionWords();
  readonly video: SharedPool;
  readonly audio: SharedPool;
  readonly #options: SimulatedViewerOptions;
  #pacedEpoch = -1;
  #painted90k = 0;
  #steered = 0;

  constructor(options: SimulatedViewerOptions) {
    this.#options = options;
    const round8 = (bytes: number): number => Math.ceil(bytes / 8) * 8;
    this.video = SharedPool.create(round8(options.pictureBytes), SLOTS);
    this.audio = SharedPool.create(round8(options.soundBytes), SLOTS);
    const report = (): void => {
      if (this.words.closed) return;
      options.engine.receiveMedia({ type: 'media.presented', sessionId: options.sessionId, epoch: this.words.epoch, media90k: this.#painted90k });
      options.clock.schedule(options.clock.now() + REPORT_MS, report);
    };
    options.clock.schedule(options.clock.now() + REPORT_MS, report);
  }

  get channels(): SessionChannels {
    return { words: this.words.buffer, video: this.video.descriptor, audio: this.audio.descriptor };
  }

  type(prompt: string | null, seamless: boolean): void {
    this.#options.engine.receive({ type: 'session.draft', sessionId: this.#options.sessionId, draftId: `${this.#options.clock.now()}`, prompt, seamless });
  }

  redirect(requestId: string, prompt: string, seamless: boolean, conditioningVersion: number): void {
    this.request(requestId, { request: 'redirect', prompt, seamless }, conditioningVersion, !seamless);
  }

  /** What is painted is held; where the request fences, the media thread does and drops what it has, then the engine is told. */
  request(requestId: string, asked: Asked, conditioningVersion: number, fences: boolean): void {
    const { clock, engine, sessionId } = this.#options;
    const held90k = this.#painted90k;
    clock.schedule(clock.now() + REQUEST_MS / 2, () => {
      if (this.words.closed) return;
      const epoch = fences ? this.words.raiseEpoch() : this.words.epoch;
      if (fences) this.words.outgoing.restart();
      const request = { type: 'session.request', sessionId, requestId, epoch, conditioningVersion, presented90k: held90k, ...asked } as EngineRequest;
      clock.schedule(clock.now() + REQUEST_MS / 2, () => engine.receive(request));
    });
  }

  /** An arrow key goes down or up: the media thread writes the word, and says so. The sequence under which it is held. */
  steer(direction: -1 | 0 | 1): number {
    const { clock, engine, sessionId } = this.#options;
    const { action } = this.words;
    const sequence = ++this.#steered;
    const { leftPresses, rightPresses } = action;
    clock.schedule(clock.now() + REQUEST_MS / 2, () => {
      if (this.words.closed) return;
      this.words.writeAction({ ...action, steer: direction, sequence, leftPresses: leftPresses + Number(direction === -1), rightPresses: rightPresses + Number(direction === 1) });
      engine.receiveMedia({ type: 'media.action', sessionId });
    });
    return sequence;
  }

  onMedia(event: MediaEvent): void {
    if (event.type !== 'media.chunk') return;
    const pool = event.kind === 'video' ? this.video : this.audio;
    if (event.epoch !== this.words.epoch || this.words.closed) return void pool.release(event.slot);
    const { clock, engine, sessionId } = this.#options;
    const nowMs = clock.now();
    let { anchor } = this.words;
    let lateMs = 0;
    const due = (): number => anchor!.atMs + mediaTime90kToMs(event.start90k - anchor!.mediaTime90k);
    if (event.kind === 'video' && (anchor === null || this.#pacedEpoch !== event.epoch || due() < nowMs)) {
      if (anchor !== null && this.#pacedEpoch === event.epoch) lateMs = nowMs - due();
      this.#pacedEpoch = event.epoch;
      anchor = { mediaTime90k: event.start90k, atMs: nowMs + PREROLL_MS };
      this.words.writeAnchor(anchor);
      clock.schedule(nowMs + 0.5, () => engine.receiveMedia({ type: 'media.anchored', sessionId }));
    }
    clock.schedule(anchor === null ? nowMs : Math.max(nowMs, due() - (event.kind === 'audio' ? PACKET_MS : 0)), () => this.#out(event, lateMs));
  }

  #out(event: Extract<MediaEvent, { type: 'media.chunk' }>, lateMs: number): void {
    const { clock, keeps, onFrame } = this.#options;
    const { revision, end90k } = event;
    const stands = event.epoch === this.words.epoch && !this.words.outgoing.isVoid(revision, end90k, this.words.outgoing.revision);
    if (stands && event.kind === 'video') {
      this.words.outgoing.claim(end90k, this.words.outgoing.revision);
      onFrame({ atMs: clock.now(), chunk: event, lateMs, rgb: keeps ? Uint8Array.from(this.video.bytes(event.slot)) : NOTHING });
      clock.schedule(clock.now() + PAINT_MS, () => {
        if (event.epoch === this.words.epoch) this.#painted90k = end90k;
      });
    }
    (event.kind === 'video' ? this.video : this.audio).release(event.slot);
  }
}

const NOTHING = new Uint8Array();
