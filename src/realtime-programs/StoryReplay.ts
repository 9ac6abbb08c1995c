import { bindingContext } from '../engine/model/binding_context.ts';
import type { EncoderChunkState } from '../engine/model/kernels/encoder_chunk.ts';
import type { VideoContinuationState } from '../engine/model/kernels/video_continuation.ts';
import type { LoopContext, LoopState } from '../engine/model/loop_kernel.ts';
import type { BlockId, PlannedUnit, UnitOutput } from '../engine/model/work.ts';
import type { ScheduledKernel } from '../engine/scheduler/LoopScheduler.ts';
import type { Worker } from '../engine/workers/Worker.ts';
import type { SharedPool } from '../streams/shared_pool.ts';
import type { KeptChunk, KeptSnapshot, KeptTensor } from '../streams/storage_messages.ts';
import type { ChunkData, SnapshotData } from './ContinuationKeeping.ts';
import type { ContinuationModel, ScenePlan } from './continuation_model.ts';
import type { EncodedPlan } from './StoryRestoration.ts';
import { latentsOfFrame } from './kept_frame.ts';
import { conditioningOf, plansOf, samePlan, type StepRecord } from './continuation_tape.ts';

export interface ReplayedChunk {
  readonly kept: KeptChunk;
  readonly chunk: number;
  /** As computed now. */
  readonly latents: Float32Array;
  /** Whether they are, bit for bit, the ones that were kept. */
  readonly same: boolean;
  /** Largest difference of a value. */
  readonly difference: number;
  /** Not computed: from the start bank, or from a picture. */
  readonly seeded: boolean;
}

export interface StoryReplayOptions {
  readonly worker: Worker;
  readonly modelId: string;
  readonly model: ContinuationModel;
  readonly kernels: readonly ScheduledKernel[];
  readonly seed: number;
}

const SESSION = 'replay';

/**
 * Computes a kept story again, step by step under what each step ran under, and compares. On the fingerprint that it was made on every chunk is
 * bit-equal, where its steps had a batch to themselves or the deployment is batch-invariant; elsewhere within what the kernels declare.
 *
 * Drives the kernels by itself, on a worker that nobody else uses: nothing is scheduled, and nothing depends on time.
 */
export class StoryReplay {
  readonly #options: StoryReplayOptions;
  /** Far from those that an engine gives out, whose worker this may be. */
  #ids = 2 ** 40;
  /** Of the last step. */
  #encoded: readonly EncodedPlan[] = [];

  constructor(options: StoryReplayOptions) {
    this.#options = options;
  }

  /**
   * @param chunks without a gap; the first is the story's first, or the one after the snapshot's window.
   * @throws {TypeError} where they aren't.
   */
  async *run(chunks: Iterable<KeptChunk>, snapshot: KeptSnapshot | null): AsyncGenerator<ReplayedChunk> {
    const { loops } = this.#options.model;
    const window = snapshot === null ? null : (JSON.parse(snapshot.data) as SnapshotData);
    const begins = window?.next ?? 0;
    let video = window === null ? loops.video.initState({ firstChunk: 0 }, bindingContext(this.#options.seed)) : this.#fromSnapshot(window, snapshot!.tensors);
    let index = -1;
    for (const kept of chunks) {
      index += 1;
      if (kept.chunk !== begins + index) throw new TypeError(index === 0 ? `a replay begins with chunk ${begins}, got ${kept.chunk}` : `chunk ${begins + index} is missing`);
      const data = JSON.parse(kept.data) as ChunkData;
      if (data.write === null) video = this.#anew(video, kept.chunk);
      else if (index > 0) video = await this.#step('video', video, data.write);
      const expected = floats(kept.tensors, 'latents');
      const latents = data.seeded ? this.#put(find(kept.tensors, 'latents')) : null;
      if (latents !== null) video = loops.video.finished(video, latents, true);
      else {
        if (data.pinnedFrames > 0) video = loops.video.withPin(video, this.#put(find(kept.tensors, 'pin')), data.pinnedFrames);
        for (const record of data.steps) video = await this.#step('video', video, record);
      }
      const [computed] = await this.#options.worker.read([loops.video.latentsOf(video)]);
      const difference = computed!.reduce((most, value, at) => Math.max(most, Math.abs(value - expected[at]!)), 0);
      const same = Buffer.from(computed!.buffer, computed!.byteOffset, computed!.byteLength).equals(Buffer.from(expected.buffer, expected.byteOffset, expected.byteLength));
      yield { kept, chunk: kept.chunk, latents: computed!, same, difference, seeded: data.seeded };
    }
  }

  /**
   * A frame of a replayed chunk as it was shown, RGB row by row. Frames that a chunk was made around were shown before it: they come from the latents that it
   * was pinned to, as they are kept.
   * @param frame within the chunk. @param video the pool that {@link REPLAY_SESSION} was attached with; one of its slots is used, and given back.
   */
  async picture({ kept, latents }: ReplayedChunk, frame: number, video: SharedPool): Promise<Uint8Array> {
    const shown = latentsOfFrame(kept, frame);
    const tensor = shown.name === 'latents' ? { ...shown, data: latents.slice().buffer } : shown;
    const ctx = bindingContext(this.#options.seed);
    const slot = video.acquire();
    if (slot === null) throw new TypeError('a picture needs a free slot');
    try {
      const state = this.#options.model.loops.picture.initState({ latents: this.#put(tensor), frames: [frame], start90k: kept.start90k }, ctx);
      await this.#run('picture', state, ctx, slot);
      return Uint8Array.from(video.bytes(slot));
    } finally {
      video.release(slot);
    }
  }

  #fromSnapshot({ next, tPrev, entries }: SnapshotData, tensors: readonly KeptTensor[]): VideoContinuationState {
    const window = Array.from({ length: entries }, (_, place) => ({ k: this.#put(find(tensors, `k${place}`)), v: this.#put(find(tensors, `v${place}`)) }));
    const prev = tensors.some(({ name }) => name === 'prev') ? this.#put(find(tensors, 'prev')) : null;
    return this.#options.model.loops.video.resumed({ chunk: next, tPrev, window, prev });
  }

  /** A story, or a cut in it, begins without what came before. */
  #anew(video: VideoContinuationState, firstChunk: number): VideoContinuationState {
    this.#options.worker.release(video.blocks);
    return this.#options.model.loops.video.initState({ firstChunk }, bindingContext(this.#options.seed));
  }

  /** One step of the video loop under what it ran under. */
  async #step(loopId: 'video', state: VideoContinuationState, record: StepRecord): Promise<VideoContinuationState> {
    const encoded = await this.#encode(plansOf(record));
    const conditioning = conditioningOf(record, (plan) => encoded.find((other) => samePlan(other.plan, plan))!.prompt);
    return (await this.#run(loopId, state, { seed: this.#options.seed, lineage: record.lineage, conditioning })) as VideoContinuationState;
  }

  /** Plans that the step before had are not encoded again. */
  async #encode(plans: readonly ScenePlan[]): Promise<readonly EncodedPlan[]> {
    const { loops, language } = this.#options.model;
    const ctx = bindingContext(this.#options.seed);
    const wanted = ({ plan }: EncodedPlan): boolean => plans.some((other) => samePlan(other, plan));
    const encoded = this.#encoded.filter(wanted);
    for (const { prompt } of this.#encoded.filter((other) => !wanted(other))) this.#options.worker.release(Object.values(prompt));
    for (const plan of plans) {
      if (encoded.some((other) => samePlan(other.plan, plan))) continue;
      const encoder = (await this.#run('encoder', loops.encoder.initState({ ids: language.encode(plan) }, ctx), ctx)) as EncoderChunkState;
      encoded.push({ plan, prompt: encoder.encoded! });
    }
    this.#encoded = encoded;
    return encoded;
  }

  async #run(loopId: 'video' | 'encoder' | 'picture', state: LoopState, ctx: LoopContext, slot = 0): Promise<LoopState> {
    const { worker, modelId, kernels, model } = this.#options;
    const kind = model.loops[loopId].kind;
    const kernel = kernels.find((candidate) => candidate.kind === kind)!;
    const plan = kernel.planStep(state, ctx);
    if (plan === null) throw new TypeError(`loop ${loopId} has no step to replay`);
    const outputs: Record<string, UnitOutput> = {};
    for (const [name, output] of Object.entries(plan.outputs)) outputs[name] = output.kind === 'block' ? { kind: 'block', block: ++this.#ids, bytes: output.bytes } : output.kind === 'slot' ? { kind: 'slot', pool: output.pool, slot } : { kind: 'value' };
    const unitId = ++this.#ids;
    const unit: PlannedUnit = { unitId, sessionId: SESSION, loopId, kernel: kind, modelId, plan, outputs, epoch: 0 };
    const [result] = await worker.executeWork({ batchId: unitId, modelId, component: plan.component, kernel: kind, units: [unit] });
    if (result === undefined || !result.ok) throw new Error(`replaying ${plan.component} failed: ${result?.message ?? 'no result'}`);
    const blocks = Object.fromEntries(Object.entries(outputs).flatMap(([name, output]) => (output.kind === 'block' ? [[name, output.block]] : [])));
    const next = kernel.advance(state, unit, { blocks, slots: Object.fromEntries(Object.entries(outputs).flatMap(([name, output]) => (output.kind === 'slot' ? [[name, output.slot]] : []))), values: result.values, next: result.next });
    worker.release(state.blocks.filter((block) => !next.blocks.includes(block)));
    return next;
  }

  #put({ dims, data }: KeptTensor): BlockId {
    const { worker } = this.#options;
    if (worker.put === undefined) throw new TypeError(`worker ${worker.id} takes no kept tensors`);
    const buffer = new SharedArrayBuffer(data.byteLength);
    new Uint8Array(buffer).set(new Uint8Array(data));
    const id = ++this.#ids;
    worker.put([{ id, sessionId: SESSION, memory: 'activations', published: false, dtype: 'float32', dims: [1, ...dims], buffer }]);
    return id;
  }
}

/** Whoever replays has to attach this session to the worker first, with pools that nothing is written to. */
export const REPLAY_SESSION = SESSION;

function find(tensors: readonly KeptTensor[], name: string): KeptTensor {
  const tensor = tensors.find((candidate) => candidate.name === name);
  if (tensor === undefined) throw new TypeError(`the kept story has no tensor ${name}`);
  return tensor;
}

function floats(tensors: readonly KeptTensor[], name: string): Float32Array {
  return new Float32Array(find(tensors, name).data);
}
