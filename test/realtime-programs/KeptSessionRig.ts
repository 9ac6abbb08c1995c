/** The real model and the engine without its threads; a media side that plays in real time, and a storage side that keeps what it is given in memory. */
import { createKernels } from '../../src/engine/model/kernels/create_kernels.ts';
import { PromptProcessor } from '../../src/engine/model/processors/PromptProcessor.ts';
import { loadModelSpec } from '../../src/engine/model/spec/load_model_spec.ts';
import { fencing } from '../../src/engine/scheduler/RequestScheduler.ts';
import { EngineCore } from '../../src/engine/runtime/EngineCore.ts';
import { OnnxWorker } from '../../src/engine/workers/OnnxWorker.ts';
import { languageDigest } from '../../src/engine/model/spec/replaceable_weights.ts';
import { weightsReplacement } from '../../src/engine/workers/weights_replacement.ts';
import type { LoadedModel } from '../../src/engine/workers/Worker.ts';
import { monotonicClock, monotonicMs } from '../../src/observe/clock.ts';
import type { ContinuationModel } from '../../src/realtime-programs/continuation_model.ts';
import { continuationModel, driveLanguage } from '../../src/realtime-programs/drive_model.ts';
import { KeptReplay } from '../../src/realtime-programs/KeptReplay.ts';
import { VideoContinuation } from '../../src/realtime-programs/VideoContinuation.ts';
import type { MediaChunk, MediaEvent } from '../../src/streams/media_events.ts';
import type { EngineRequest, EngineToControl } from '../../src/streams/messages.ts';
import type { KeptRange } from '../../src/streams/kept_range.ts';
import { writtenFor, type KeptChunk, type KeptSnapshot, type KeptStory, type StorageWrite, type ToStorage } from '../../src/streams/storage_messages.ts';
import { SessionWords } from '../../src/streams/session_words.ts';
import { SharedPool } from '../../src/streams/shared_pool.ts';

const MODEL_DIR = new URL('../../models/drive', import.meta.url).pathname;

/** What one session has emitted and written. */
export interface KeptSide {
  readonly words: SessionWords;
  readonly frames: MediaChunk[];
  /** RGB of each frame as it was emitted last, by its media time. */
  readonly pictures: Map<number, Uint8Array>;
  /** Samples of each frame's time, likewise. */
  readonly sounds: Map<number, Uint8Array>;
  readonly chunks: KeptChunk[];
  readonly snapshots: KeptSnapshot[];
  /** All that was written of the session, in order: of each branch. */
  readonly written: StorageWrite[];
}

/** One session at a time, and forks beside it. */
export class KeptSessionRig implements KeptSide {
  static readonly spec = loadModelSpec(MODEL_DIR);
  readonly kernels = createKernels(KeptSessionRig.spec);
  readonly model: ContinuationModel;
  readonly worker: OnnxWorker;
  loaded!: LoadedModel;
  readonly messages: EngineToControl[] = [];
  readonly frames: MediaChunk[] = [];
  readonly pictures = new Map<number, Uint8Array>();
  readonly sounds = new Map<number, Uint8Array>();
  /** What a replay is played from. */
  stored: readonly KeptChunk[] = [];
  chunks: KeptChunk[] = [];
  snapshots: KeptSnapshot[] = [];
  written: StorageWrite[] = [];
  readonly forks = new Map<string, KeptSide>();
  core!: EngineCore;
  words = new SessionWords();
  #video = SharedPool.create(224 * 128 * 3, 24);
  #audio = SharedPool.create(4000, 24);
  /** Answers `stored`; false: a disk that stands still. */
  stores = true;
  readonly #snapshotChunks: number;
  #sent = 0;

  readonly #modelDir: string;

  /**
   * @param previews the first chunk after a redirect is made in fewer steps.
   * @param batchInvariant a step has the same bits whoever it shares a batch with.
   * @param modelDir a copy of the model, whose weights may be replaced.
   */
  constructor(snapshotChunks = 5, { previews = false, batchInvariant = false, modelDir = MODEL_DIR } = {}) {
    this.#snapshotChunks = snapshotChunks;
    this.#modelDir = modelDir;
    this.worker = new OnnxWorker({ id: 'test', calibrationRuns: 2, spare: false, batchInvariant });
    this.model = { ...continuationModel(KeptSessionRig.spec, this.kernels, driveLanguage(PromptProcessor.load(KeptSessionRig.spec))), previews };
  }

  async start(): Promise<void> {
    this.loaded = await this.worker.loadModel(this.#modelDir);
    const program = new VideoContinuation(this.model);
    this.core = new EngineCore({
      clock: monotonicClock,
      workers: [{ worker: this.worker, loaded: this.loaded }],
      kernels: Object.values(this.kernels),
      programs: { drive: program, replay: new KeptReplay(this.model) },
      components: Object.keys(KeptSessionRig.spec.components),
      identity: { precision: 'fp32', parallelPlanHash: 'x' },
      // Bits are compared: a loaded machine must not change them.
      options: { snapshotChunks: this.#snapshotChunks, reducedSteps: false },
      prepareWeights: weightsReplacement({ modelDir: this.#modelDir, serving: { spec: KeptSessionRig.spec, language: languageDigest(KeptSessionRig.spec) }, workers: [this.worker] }),
      keepBounds: { sessionBytes: 2_300_000, totalBytes: 2_300_000 },
      toControl: (message) => this.messages.push(message),
      toMedia: (event) => this.#play(event),
      toStorage: (message) => this.#keep(message),
    });
    this.core.start();
  }

  /** Plays what is stored again. */
  replay(sessionId: string, range: KeptRange, seed = 7): void {
    this.pictures.clear();
    this.sounds.clear();
    this.open(sessionId, { seed, program: 'replay', replay: range });
  }

  open(sessionId: string, { seed = 7, prompt = 'a forest at noon' as string | null, program = 'drive', ...more }: { seed?: number; prompt?: string | null; program?: string; story?: KeptStory; replay?: KeptRange } = {}): void {
    this.words = new SessionWords();
    this.frames.length = 0;
    this.chunks = [];
    this.snapshots = [];
    this.written = [];
    this.core.receive({ type: 'session.open', sessionId, model: this.loaded.modelId, program, seed, prompt, image: null, tenant: 't', channels: { words: this.words.buffer, video: this.#video.descriptor, audio: this.#audio.descriptor }, ...more });
  }

  request(sessionId: string, requestId: string, body: { request: 'interrupt' } | { request: 'rewind'; to90k: number; exact: boolean } | { request: 'pause' } | { request: 'resume' } | { request: 'redirect'; prompt: string; seamless: boolean } | { request: 'cut'; prompt: string } | { request: 'blend'; prompt: string; chunks: number }): void {
    const fences = fencing(body as EngineRequest);
    // What is not out yet wasn't seen: the fence falls inside a chunk, as it does for people.
    const presented90k = Math.max(0, (this.frames.at(-1)?.end90k ?? 0) - 7500);
    const epoch = fences ? this.words.raiseEpoch() : this.words.epoch;
    this.core.receive({ type: 'session.request', sessionId, requestId, epoch, conditioningVersion: 1, presented90k, ...body } as EngineRequest);
  }

  /** Another session with the past of the one that is open. */
  fork(sessionId: string, from: string, to90k: number, lineage: number): KeptSide {
    const side: KeptSide = { words: new SessionWords(), frames: [], pictures: new Map(), sounds: new Map(), chunks: [], snapshots: [], written: [] };
    this.forks.set(sessionId, side);
    this.core.receive({ type: 'session.open', sessionId, model: this.loaded.modelId, program: 'drive', seed: 7, prompt: null, image: null, tenant: 't', channels: { words: side.words.buffer, video: this.#video.descriptor, audio: this.#audio.descriptor }, fork: { from, to90k }, lineage });
    return side;
  }

  /** As a disk would give it back. */
  story(throughChunk: number, { snapshot = true } = {}): KeptStory {
    const kept = this.snapshots.filter(({ chunk }) => chunk <= throughChunk).at(-1) ?? null;
    const from = Math.min(kept?.chunk ?? throughChunk, throughChunk - 7);
    return {
      fingerprint: { modelId: this.loaded.modelId, weightsVersion: this.loaded.weightsVersion, adapterVersions: {}, machine: this.loaded.fingerprint },
      chunks: this.chunks.filter(({ chunk }) => chunk >= from && chunk <= throughChunk),
      snapshot: snapshot ? kept : null,
    };
  }

  /** The chunk from which on nothing is kept, as was told last; null: everything is. */
  behind(sessionId: string): number | null {
    const told = this.messages.findLast((message) => message.type === 'session.keeping' && message.sessionId === sessionId);
    return told?.type === 'session.keeping' ? told.behindFromChunk : null;
  }

  /** Everything that was sent is stored. */
  settle(): void {
    this.core.receiveStorage({ type: 'stored', through: this.#sent });
  }

  async until(done: () => boolean, what: string, timeoutMs = 30_000): Promise<void> {
    const end = monotonicMs() + timeoutMs;
    while (!done()) {
      if (monotonicMs() > end) throw new Error(`not within ${timeoutMs} ms: ${what}; ${this.chunks.length} chunks kept; last: ${JSON.stringify(this.messages.filter(({ type }) => type !== 'trace' && type !== 'engine.stats').slice(-4))}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  async end(sessionId: string, presented90k?: number): Promise<void> {
    this.core.receive({ type: 'session.close', sessionId, ...(presented90k === undefined ? {} : { presented: { epoch: this.words.epoch, media90k: presented90k } }) });
    await this.until(() => this.messages.some((message) => message.type === 'session.closed' && message.sessionId === sessionId), 'closed');
  }

  async close(): Promise<void> {
    this.core.close();
    await this.worker.close();
  }

  #keep(message: ToStorage): void {
    if (message.type === 'chunks.of') {
      const chunks = this.stored.filter(({ chunk }) => chunk >= message.from && chunk < message.from + message.count);
      setImmediate(() => this.core.receiveStorage({ type: 'chunks.read', request: message.request, chunks }));
    }
    if (message.type !== 'write') return;
    const { write } = message;
    this.#sent = message.number;
    const side = this.forks.get(writtenFor(write)) ?? this;
    side.written.push(write);
    if (write.type === 'chunk') side.chunks.push(write.chunk);
    if (write.type === 'snapshot') side.snapshots.push(write.snapshot);
    if (this.stores) setImmediate(() => this.core.receiveStorage({ type: 'stored', through: message.number }));
  }

  #play(event: MediaEvent): void {
    if (event.type !== 'media.chunk') return;
    const { words, frames, pictures, sounds } = this.forks.get(event.sessionId) ?? this;
    if (event.kind === 'video' && event.epoch === words.epoch) pictures.set(event.start90k, Uint8Array.from(this.#video.bytes(event.slot)));
    if (event.kind === 'audio' && event.epoch === words.epoch) sounds.set(event.start90k, this.#audio.bytes(event.slot).slice(0, event.samples * 2));
    (event.kind === 'video' ? this.#video : this.#audio).release(event.slot);
    if (event.kind !== 'video' || event.epoch !== words.epoch) return;
    const first = frames.at(-1)?.epoch !== event.epoch || words.anchor === null;
    frames.push(event);
    if (first) {
      words.writeAnchor({ mediaTime90k: event.start90k, atMs: monotonicMs() + 40 });
      setImmediate(() => this.core.receiveMedia({ type: 'media.anchored', sessionId: event.sessionId }));
    }
    setImmediate(() => this.core.receiveMedia({ type: 'media.presented', sessionId: event.sessionId, epoch: event.epoch, media90k: event.start90k }));
  }
}
