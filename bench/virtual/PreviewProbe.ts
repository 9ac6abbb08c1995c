import type { UnitInput, WorkUnitBatch } from '../../src/engine/model/work.ts';
import { SharedPool } from '../../src/streams/shared_pool.ts';
import type { ComputedWorker } from './ComputedWorker.ts';

const SESSION = 'preview';
/** No id that an engine gives. */
const SCRATCH = -1;

/**
 * What a preview would show: the first denoise step of a chunk taken in one stride to its end (the estimate of clean latents that the step makes), decoded.
 * Computed beside the schedule from the step's own inputs; the story goes on from the real steps.
 */
export class PreviewProbe {
  readonly #worker: ComputedWorker;
  readonly #video: SharedPool;
  readonly #audio = SharedPool.create(8, 1);
  readonly #pictureBytes: number;
  readonly #framesPerChunk: number;
  /** Conditioning version of which the next first step is taken; null: none. */
  #wanted: number | null = null;
  #picture: Uint8Array | null = null;
  #batchId = 1_000_000;

  constructor(worker: ComputedWorker, { pictureBytes, framesPerChunk }: { readonly pictureBytes: number; readonly framesPerChunk: number }) {
    this.#worker = worker;
    this.#pictureBytes = pictureBytes;
    this.#framesPerChunk = framesPerChunk;
    this.#video = SharedPool.create(Math.ceil(pictureBytes / 8) * 8, 1);
    worker.attach(SESSION, { video: this.#video.descriptor, audio: this.#audio.descriptor });
    worker.afterEach = (batch, compute) => this.#look(batch, compute);
  }

  want(conditioningVersion: number): void {
    this.#wanted = conditioningVersion;
    this.#picture = null;
  }

  /** RGB; null where no chunk was begun under the change. */
  get picture(): Uint8Array | null {
    return this.#picture;
  }

  async #look(batch: WorkUnitBatch, compute: (batch: WorkUnitBatch) => Promise<unknown>): Promise<void> {
    const unit = batch.units.find(({ plan }) => plan.kind === 'diffusion_step' && plan.step === 0 && plan.state['conditioningVersion'] === this.#wanted);
    if (unit === undefined || this.#wanted === null) return;
    this.#wanted = null;
    const { plan } = unit;
    const frame = Number(plan.state['pinnedFrames']);
    const inputs: Record<string, UnitInput> = { ...plan.inputs, t_next: { kind: 'floats', values: [0], shape: [1] } };
    const estimate = { ...unit, sessionId: SESSION, plan: { ...plan, inputs }, outputs: { x_next: { kind: 'block', block: SCRATCH, bytes: 0 } } } as const;
    await compute({ ...batch, batchId: this.#batchId++, units: [estimate] });
    const oneHot: UnitInput = { kind: 'floats', values: Array.from({ length: this.#framesPerChunk }, (_, index) => Number(index === frame)), shape: [this.#framesPerChunk] };
    const decode = {
      ...unit,
      sessionId: SESSION,
      kernel: 'vae_tile_decode',
      plan: { ...plan, kind: 'vae_tile', component: 'vae_decode', inputs: { x: { kind: 'block', block: SCRATCH }, frame: oneHot }, outputs: { rgb: { kind: 'slot', pool: 'video' } }, state: { frames: [frame], start90k: 0, decoded: 0 }, cache: null },
      outputs: { rgb: { kind: 'slot', pool: 'video', slot: 0 } },
    } as const;
    await compute({ ...batch, batchId: this.#batchId++, component: 'vae_decode', kernel: 'vae_tile_decode', units: [decode] });
    this.#picture = Uint8Array.from(this.#video.bytes(0).subarray(0, this.#pictureBytes));
    this.#worker.release([SCRATCH]);
  }
}
