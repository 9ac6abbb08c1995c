import type { EngineCore } from '../../src/engine/runtime/EngineCore.ts';
import { PREROLL_MS } from '../../src/media/PicturePump.ts';
import type { VirtualClock } from '../../src/observe/virtual_clock.ts';
import type { MediaEvent, VideoChunk } from '../../src/streams/media_events.ts';
import { mediaTime90kToMs } from '../../src/streams/media_time.ts';
import type { EngineRequest, SessionChannels } from '../../src/streams/messages.ts';
import { SessionWords } from '../../src/streams/session_words.ts';
import { SharedPool } from '../../src/streams/shared_pool.ts';

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
export interface Sent {
  readonly atMs: number;
  readonly chunk: VideoChunk;
  /** RGB; empty where nothing is computed. */
  readonly rgb: Uint8Array;
}

export interface ViewerOptions {
  readonly sessionId: string;
  readonly clock: VirtualClock;
  readonly core: EngineCore;
  readonly pictureBytes: number;
  readonly soundBytes: number;
  /** Keeps the pictures. */
  readonly keeps: boolean;
}

/** One session's media thread and page, on the virtual clock: paces, fences, reports what was painted, presses Enter. */
export class Viewer {
  readonly words = new SessionWords();
  readonly video: SharedPool;
  readonly audio: SharedPool;
  readonly sent: Sent[] = [];
  readonly #options: ViewerOptions;
  #pacedEpoch = -1;
  #painted90k = 0;
  #steered = 0;

  constructor(options: ViewerOptions) {
    this.#options = options;
    const round8 = (bytes: number): number => Math.ceil(bytes / 8) * 8;
    this.video = SharedPool.create(round8(options.pictureBytes), SLOTS);
    this.audio = SharedPool.create(round8(options.soundBytes), SLOTS);
    const report = (): void => {
      if (this.words.closed) return;
      options.core.receiveMedia({ type: 'media.presented', sessionId: options.sessionId, epoch: this.words.epoch, media90k: this.#painted90k });
      options.clock.schedule(options.clock.now() + REPORT_MS, report);
    };
    options.clock.schedule(REPORT_MS, report);
  }

  get channels(): SessionChannels {
    return { words: this.words.buffer, video: this.video.descriptor, audio: this.audio.descriptor };
  }

  type(prompt: string | null, seamless: boolean): void {
    this.#options.core.receive({ type: 'session.draft', sessionId: this.#options.sessionId, draftId: `${this.#options.clock.now()}`, prompt, seamless });
  }

  /** Enter: what is painted is held; the media thread fences and drops what it has, then the engine is told. */
  redirect(requestId: string, prompt: string, seamless: boolean, conditioningVersion: number): void {
    const { clock, core, sessionId } = this.#options;
    const held90k = this.#painted90k;
    clock.schedule(clock.now() + REQUEST_MS / 2, () => {
      const epoch = seamless ? this.words.epoch : this.words.raiseEpoch();
      if (!seamless) this.words.outgoing.restart();
      const request: EngineRequest = { type: 'session.request', request: 'redirect', sessionId, requestId, epoch, conditioningVersion, prompt, seamless, presented90k: held90k };
      clock.schedule(clock.now() + REQUEST_MS / 2, () => core.receive(request));
    });
  }

  /** An arrow key goes down or up: the media thread writes the word, and says so. The sequence under which it is held. */
  steer(direction: -1 | 0 | 1): number {
    const { clock, core, sessionId } = this.#options;
    const { action } = this.words;
    const sequence = ++this.#steered;
    const { leftPresses, rightPresses } = action;
    clock.schedule(clock.now() + REQUEST_MS / 2, () => {
      this.words.writeAction({ ...action, steer: direction, sequence, leftPresses: leftPresses + Number(direction === -1), rightPresses: rightPresses + Number(direction === 1) });
      core.receiveMedia({ type: 'media.action', sessionId });
    });
    return sequence;
  }

  onMedia(event: MediaEvent): void {
    if (event.type !== 'media.chunk') return;
    const pool = event.kind === 'video' ? this.video : this.audio;
    if (event.epoch !== this.words.epoch) return void pool.release(event.slot);
    const { clock, core, sessionId } = this.#options;
    const nowMs = clock.now();
    let { anchor } = this.words;
    const due = (): number => anchor!.atMs + mediaTime90kToMs(event.start90k - anchor!.mediaTime90k);
    if (event.kind === 'video' && (anchor === null || this.#pacedEpoch !== event.epoch || due() < nowMs)) {
      this.#pacedEpoch = event.epoch;
      anchor = { mediaTime90k: event.start90k, atMs: nowMs + PREROLL_MS };
      this.words.writeAnchor(anchor);
      clock.schedule(nowMs + 0.5, () => core.receiveMedia({ type: 'media.anchored', sessionId }));
    }
    clock.schedule(anchor === null ? nowMs : Math.max(nowMs, due() - (event.kind === 'audio' ? PACKET_MS : 0)), () => {
      const { revision, end90k } = event;
      const stands = event.epoch === this.words.epoch && !this.words.outgoing.isVoid(revision, end90k, this.words.outgoing.revision);
      if (stands && event.kind === 'video') {
        this.words.outgoing.claim(end90k, this.words.outgoing.revision);
        this.sent.push({ atMs: clock.now(), chunk: event, rgb: this.#options.keeps ? Uint8Array.from(this.video.bytes(event.slot)) : new Uint8Array() });
        clock.schedule(clock.now() + PAINT_MS, () => {
          if (event.epoch === this.words.epoch) this.#painted90k = end90k;
        });
      }
      pool.release(event.slot);
    });
  }
}
