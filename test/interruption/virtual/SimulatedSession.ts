import assert from 'node:assert/strict';
import { fencing } from '../../../src/engine/scheduler/RequestScheduler.ts';
import { HORIZON_CHUNKS } from '../../../src/engine/runtime/Story.ts';
import type { AdapterInForce } from '../../../src/protocol/session_adapter.ts';
import type { VirtualClock } from '../../../src/observe/virtual_clock.ts';
import type { MediaChunk, MediaEvent } from '../../../src/streams/media_events.ts';
import { frameDuration90k, mediaTime90kToMs, type MediaFormat } from '../../../src/streams/media_time.ts';
import type { EngineRequest, EngineToControl, MediaToEngine, SessionChannels, PresentedIn } from '../../../src/streams/messages.ts';
import { SessionWords } from '../../../src/streams/session_words.ts';
import { SharedPool } from '../../../src/streams/shared_pool.ts';

export type RequestBody =
  | { readonly request: 'interrupt' }
  | { readonly request: 'adopt' }
  | { readonly request: 'redirect'; readonly prompt: string | null; readonly plan?: Readonly<Record<string, string>>; readonly adapter?: AdapterInForce | null; readonly seamless: boolean }
  | { readonly request: 'cut'; readonly prompt: string }
  | { readonly request: 'blend'; readonly prompt: string; readonly chunks: number }
  /** `to90k`: as asked for; no more than what was seen is gone back to. */
  | { readonly request: 'rewind'; readonly to90k: number; readonly exact: boolean }
  | { readonly request: 'hold' }
  | { readonly request: 'release' }
  | { readonly request: 'pause' }
  | { readonly request: 'resume' };

export interface SimulatedSessionOptions {
  readonly sessionId: string;
  readonly clock: VirtualClock;
  readonly format: MediaFormat;
  readonly framesPerChunk: number;
  readonly slots: number;
  readonly toEngine: (message: MediaToEngine) => void;
}

/** A frame is on the wire this long after its pacing time. */
const PREROLL_MS = 30;
/** Sound leaves in packets of this length: it is taken out before its picture. */
const PACKET_MS = 20;

/**
 * The media and control side of one session: paces frames, reports what was seen, keeps account of answers, and asserts the
 * promises of `docs/structures.md` on every message.
 */
export class SimulatedSession {
  readonly sessionId: string;
  readonly words = new SessionWords();
  readonly video: SharedPool;
  readonly audio: SharedPool;
  readonly channels: SessionChannels;
  readonly frames: (MediaChunk & { readonly atMs: number })[] = [];
  /** Pictures that went out, as against those that were recalled or fenced. */
  readonly sent: (MediaChunk & { readonly atMs: number })[] = [];
  recalls = 0;
  /** Pictures that came after they were due. */
  late = 0;
  readonly answers = new Map<string, EngineToControl[]>();
  readonly faults: { readonly fatal: boolean; readonly code: string }[] = [];
  readonly texts: Extract<EngineToControl, { type: 'text' }>[] = [];
  committed90k = 0;
  /** Where rewinds were asked to go, and where they went. */
  readonly wanted = new Map<string, number>();
  readonly rewinds: { readonly requestId: string; readonly media90k: number }[] = [];
  opened: Extract<EngineToControl, { type: 'session.opened' }> | null = null;
  lastDeliveryMs = 0;
  ended = false;
  refused = false;
  /** How long after it left a frame is seen and reported; Infinity: a client that never reports. */
  reportDelayMs = 80;
  readonly #options: SimulatedSessionOptions;
  readonly #frame90k: number;
  readonly #asked: string[] = [];
  /** Frames that left, of the epoch in force. */
  #sent90k = 0;
  #seen90k = 0;
  #reported90k = 0;
  #toldEpoch = 0;
  #epoch = 0;
  /** Where the next frame of each stream must start; null after a fence, until the engine has said. */
  readonly #next = { video: 0 as number | null, audio: 0 as number | null };
  #expectedStart: number | null = 0;
  #newest90k = 0;
  #pacedEpoch = -1;
  #paced = 0;
  /** Not sent yet. */
  readonly #queued = new Set<MediaChunk>();

  constructor(options: SimulatedSessionOptions) {
    this.#options = options;
    this.sessionId = options.sessionId;
    this.#frame90k = frameDuration90k(options.format);
    this.video = SharedPool.create(8, options.slots);
    this.audio = SharedPool.create(8, options.slots);
    this.channels = { words: this.words.buffer, video: this.video.descriptor, audio: this.audio.descriptor };
  }

  get held90k(): number {
    return this.#seen90k;
  }

  /** What the control side knows of it, in the epoch in force; null: nothing since the last fence. */
  get told(): PresentedIn | null {
    const { epoch } = this.words;
    return this.#toldEpoch === epoch ? { epoch, media90k: this.#seen90k } : null;
  }

  get videoFrames() {
    return this.frames.filter(({ kind }) => kind === 'video');
  }

  asked(requestId: string): void {
    this.#asked.push(requestId);
    this.answers.set(requestId, []);
  }

  /** Held input changes; a tap is held for no time at all. */
  act(steer: number): void {
    const { sequence, speed, leftPresses, rightPresses } = this.words.action;
    this.words.writeAction({ sequence: sequence + 1, steer, speed, leftPresses: leftPresses + Number(steer < 0), rightPresses: rightPresses + Number(steer > 0) });
    this.#options.toEngine({ type: 'media.action', sessionId: this.sessionId });
  }

  /** The media thread raises the word and drops what it holds. */
  fence(): number {
    const epoch = this.words.raiseEpoch();
    this.words.outgoing.restart();
    this.#sent90k = this.#seen90k;
    return epoch;
  }

  /** The engine is about to see a request: what it must rewind to. */
  delivered(request: EngineRequest): void {
    if (!fencing(request) || !('presented90k' in request) || request.epoch < this.#epoch) return;
    const seen = Math.ceil(request.presented90k / this.#frame90k) * this.#frame90k;
    this.#expectedStart = Math.min(this.#newest90k, Math.max(this.committed90k, seen));
    this.#newest90k = this.#expectedStart;
    this.#reported90k = this.#expectedStart;
    this.#next.video = this.#next.audio = this.#expectedStart;
    this.#epoch = request.epoch;
  }

  /** The story went back: all that came after is another future's. */
  #rewound({ media90k, presented90k, requestId }: Extract<EngineToControl, { type: 'session.rewound' }>): void {
    const wanted = this.wanted.get(requestId)!;
    assert.ok(media90k <= Math.max(0, wanted) && media90k <= presented90k, `no later than was asked for: ${media90k}, ${wanted}`);
    assert.equal(media90k % this.#frame90k, 0);
    this.rewinds.push({ requestId, media90k });
    this.committed90k = Math.min(this.committed90k, media90k);
    this.#next.video = this.#next.audio = this.#expectedStart = this.#newest90k = media90k;
    this.#sent90k = this.#seen90k = this.#reported90k = media90k;
  }

  /** A story that was kept up to here: all of it was seen. */
  startAt(media90k: number): void {
    this.#next.video = this.#next.audio = this.#expectedStart = this.#newest90k = media90k;
    this.#sent90k = this.#seen90k = this.#reported90k = this.committed90k = media90k;
  }

  onMedia(event: MediaEvent): void {
    if (event.type === 'media.complete') return;
    if (event.type === 'media.init') return;
    assert.ok(!this.words.closed && !this.ended, 'no media after close');
    if (event.type === 'media.recall') {
      assert.ok(event.from90k >= this.words.outgoing.claimed90k, 'what has been claimed is not recalled');
      assert.ok(event.from90k < this.#newest90k || event.from90k === this.#next.video, 'only what was made is recalled');
      this.recalls++;
      this.#next.video = this.#next.audio = this.#newest90k = event.from90k;
      for (const chunk of this.#queued) if (this.#isVoid(chunk)) this.#drop(chunk);
      return;
    }
    assert.equal(event.epoch, this.words.epoch, 'no media of an older epoch once the word is raised');
    assert.equal(event.start90k, this.#next[event.kind], `media time of ${event.kind} is contiguous from where it was rewound to`);
    assert.equal(event.end90k, event.start90k + this.#frame90k);
    assert.ok(!this.#isVoid(event), 'nothing void is emitted');
    this.#next[event.kind] = event.end90k;
    this.#newest90k = event.end90k;
    this.frames.push({ ...event, atMs: this.#options.clock.now() });
    this.#pace(event);
  }

  onControl(message: EngineToControl): void {
    switch (message.type) {
      case 'session.refused':
        this.refused = true;
        break;
      case 'session.opened':
        this.opened = message;
        if (message.at90k !== undefined) this.startAt(message.at90k);
        break;
      case 'session.rewound':
        this.#rewound(message);
        break;
      case 'request.applied':
      case 'request.failed':
      case 'request.superseded':
        assert.ok(this.answers.has(message.requestId), `answer to a request that was asked: ${message.requestId}`);
        this.answers.get(message.requestId)!.push(message);
        assert.equal(this.answers.get(message.requestId)!.length, 1, `${message.requestId} is answered once`);
        break;
      case 'session.committed': {
        assert.ok(message.media90k > this.committed90k, 'the committed position never goes back');
        const horizon90k = this.#newest90k - HORIZON_CHUNKS * this.#options.framesPerChunk * this.#frame90k;
        assert.ok(message.media90k <= Math.max(this.#reported90k, horizon90k), `committed ${message.media90k} passes neither what was presented (${this.#reported90k}) nor the horizon (${horizon90k})`);
        this.committed90k = message.media90k;
        break;
      }
      case 'session.fault':
        this.faults.push({ fatal: message.fatal, code: message.error.code });
        break;
      case 'text':
        this.texts.push(message);
        break;
      case 'session.closed':
        assert.ok(!this.ended, 'closed once');
        this.ended = true;
        break;
      default:
    }
  }

  checkEnd(): void {
    if (this.refused) return;
    assert.ok(this.ended, 'the session has closed');
    for (const requestId of this.#asked) assert.equal(this.answers.get(requestId)!.length, 1, `${requestId} is answered exactly once`);
    assert.equal(this.video.used, 0, 'no picture slot is left');
    assert.equal(this.audio.used, 0, 'no sound slot is left');
  }

  #pace(chunk: MediaChunk): void {
    const { clock, toEngine } = this.#options;
    const { epoch, end90k } = chunk;
    const now = clock.now();
    let anchor = this.words.anchor;
    if (epoch !== this.#pacedEpoch) {
      this.#pacedEpoch = epoch;
      this.#paced = 0;
    }
    const begun = ++this.#paced;
    // The first frame of an epoch, or one that comes too late, starts the timeline anew.
    const isLate = anchor !== null && begun > 1 && dueMs(anchor, chunk.start90k) < now;
    if (chunk.kind === 'video' && isLate) this.late++;
    if (chunk.kind === 'video' && (anchor === null || begun === 1 || isLate)) {
      anchor = { mediaTime90k: chunk.start90k, atMs: now + PREROLL_MS };
      this.words.writeAnchor(anchor);
      clock.schedule(now + 0.5, () => toEngine({ type: 'media.anchored', sessionId: this.sessionId }));
    }
    this.#queued.add(chunk);
    const due = dueMs(anchor!, chunk.start90k);
    clock.schedule(chunk.kind === 'audio' ? due - PACKET_MS : due, () => {
      if (!this.#queued.has(chunk)) return;
      this.#drop(chunk);
      if (this.words.epoch !== epoch || this.words.closed) return;
      assert.ok(this.words.outgoing.claim(end90k, this.words.outgoing.revision));
      if (chunk.kind !== 'video') return;
      const last = this.sent.at(-1);
      if (last?.epoch === epoch) assert.equal(chunk.start90k, last.end90k, 'what goes out is contiguous');
      this.sent.push({ ...chunk, atMs: clock.now() });
      this.#sent90k = Math.max(this.#sent90k, end90k);
      if (this.reportDelayMs === Infinity) return;
      clock.schedule(clock.now() + this.reportDelayMs, () => this.#see(epoch, end90k));
    });
  }

  #isVoid({ revision, end90k }: MediaChunk): boolean {
    return this.words.outgoing.isVoid(revision, end90k, this.words.outgoing.revision);
  }

  #drop(chunk: MediaChunk): void {
    this.#queued.delete(chunk);
    (chunk.kind === 'video' ? this.video : this.audio).release(chunk.slot);
  }

  #see(epoch: number, media90k: number): void {
    if (this.words.epoch !== epoch || this.words.closed) return;
    this.#seen90k = Math.max(this.#seen90k, media90k);
    this.#toldEpoch = epoch;
    if (epoch === this.#epoch) this.#reported90k = Math.max(this.#reported90k, media90k);
    this.#options.toEngine({ type: 'media.presented', sessionId: this.sessionId, epoch, media90k });
  }
}

function dueMs(anchor: { readonly mediaTime90k: number; readonly atMs: number }, media90k: number): number {
  return anchor.atMs + mediaTime90kToMs(media90k - anchor.mediaTime90k);
}
