import { createKernels } from '../../src/engine/model/kernels/create_kernels.ts';
import { loadModelSpec } from '../../src/engine/model/spec/load_model_spec.ts';
import type { EngineOptions } from '../../src/engine/runtime/engine_options.ts';
import { EngineCore } from '../../src/engine/runtime/EngineCore.ts';
import { SimulatedWorker } from '../../src/engine/runtime/SimulatedWorker.ts';
import { VirtualClock } from '../../src/observe/virtual_clock.ts';
import { continuationModel } from '../../src/realtime-programs/drive_model.ts';
import { VideoContinuation } from '../../src/realtime-programs/VideoContinuation.ts';
import { spokenNumbers, spokenValues } from '../../src/simulation/spoken_numbers.ts';
import { UnitCosts } from '../../src/simulation/unit_costs.ts';
import type { MediaEvent } from '../../src/streams/media_events.ts';
import { SessionWords } from '../../src/streams/session_words.ts';
import { SharedPool } from '../../src/streams/shared_pool.ts';
import { TimedWorker } from './TimedWorker.ts';

const SPEC = loadModelSpec(new URL('../../models/drive', import.meta.url).pathname, { verifyChecksums: false });
const WORDS = { plan: 2, narration: 1 };
/** ms of one unit alone on one core with AVX-512, as in `sessions.ts`. */
const TABLE = { director_prefill: 1.2, director_step: 0.7, text_encoder: 1, start_bank: 0.2, denoise_step: 5, clean_write: 5, vae_decode: 6, audio_synth: 0.5 };
/** Of the table's core, one session's share: a chunk of {@link CHUNK_MS}. */
const SESSION_LOAD = 0.21;
/** Share of a device's time that its sessions take: nearly always somebody waits, and nobody starves. */
const UTILISATION = 0.8;
const CHUNK_MS = 167;
const SLOTS = 8;
const PREROLL_MS = 30;
const BYTES = 2 ** 50;

export interface LiveSessionsOptions {
  readonly sessions: number;
  readonly devices: number;
  readonly engine?: Partial<EngineOptions>;
  /** Results → next batch of the same device, where somebody waited. */
  readonly turnedRound: (microseconds: number, settledUnits: number, dispatchedUnits: number) => void;
}

/**
 * Live sessions of the shipped program on the engine that serves, over devices that are a clock, each as fast as its share of the sessions asks. Media takes
 * what comes and keeps the timeline; nothing else happens, so that what is timed is the engine's own work.
 */
export class LiveSessions {
  readonly clock = new VirtualClock();
  readonly core: EngineCore;
  readonly workers: readonly SimulatedWorker[];
  readonly #media = new Map<string, { readonly words: SessionWords; readonly pools: Readonly<Record<'video' | 'audio', SharedPool>> }>();

  private constructor({ sessions, devices, engine = {}, turnedRound }: LiveSessionsOptions) {
    const speed = Math.max(1, ((sessions / devices) * SESSION_LOAD) / UTILISATION);
    const costs = UnitCosts.read(Object.fromEntries(Object.entries(TABLE).map(([component, ms]) => [component, ms / speed])), SPEC);
    const kernels = createKernels(SPEC);
    const loaded = { modelId: SPEC.modelId, weightsVersion: 'simulated', fingerprint: 'simulated', cost: costs.entries(SPEC) };
    this.workers = Array.from({ length: devices }, (_, device) => new SimulatedWorker({ id: `d${device}`, clock: this.clock, loaded, kernels: { ...kernels }, values: spokenValues(WORDS), outcome: ({ component, units }) => ({ deviceMs: costs.batchMs(component, units.length), answer: 'ok' }) }));
    this.core = new EngineCore({
      clock: this.clock,
      workers: this.workers.map((worker) => ({ worker: new TimedWorker(worker, this.clock, turnedRound), loaded })),
      kernels: Object.values(kernels),
      programs: { drive: new VideoContinuation(continuationModel(SPEC, kernels, spokenNumbers(WORDS))) },
      components: Object.keys(SPEC.components),
      identity: { precision: SPEC.variant.precision, parallelPlanHash: 'single' },
      options: { traces: 'summary', admissionBound: 1, redirectReserve: 1e-6, memory: { kv: BYTES, activations: BYTES }, ...engine },
      toControl: (message) => {
        if (message.type === 'session.refused') throw new Error(JSON.stringify(message.error));
      },
      toMedia: (event) => this.#take(event),
    });
    this.core.start();
  }

  /** Opens them over the time of a chunk, so that they aren't in step, and plays until all flow. */
  static async open(options: LiveSessionsOptions): Promise<LiveSessions> {
    const live = new LiveSessions(options);
    const { sessions } = options;
    for (let session = 0; session < sessions; session++) {
      const sessionId = `s${session}`;
      const words = new SessionWords();
      const pools = { video: SharedPool.create(8, SLOTS), audio: SharedPool.create(8, SLOTS) };
      live.#media.set(sessionId, { words, pools });
      live.core.receive({ type: 'session.open', sessionId, model: SPEC.modelId, program: 'drive', seed: session, prompt: null, image: null, tenant: 't', channels: { words: words.buffer, video: pools.video.descriptor, audio: pools.audio.descriptor } });
      await live.clock.advanceTo((CHUNK_MS * (session + 1)) / sessions);
    }
    await live.run(CHUNK_MS);
    return live;
  }

  async run(ms: number): Promise<void> {
    await this.clock.advanceTo(this.clock.now() + ms);
  }

  close(): void {
    for (const { words } of this.#media.values()) words.markClosed();
    this.core.close();
  }

  #take(event: MediaEvent): void {
    if (event.type !== 'media.chunk') return;
    const { words, pools } = this.#media.get(event.sessionId)!;
    pools[event.kind].release(event.slot);
    if (words.anchor !== null) return;
    words.writeAnchor({ mediaTime90k: event.start90k, atMs: this.clock.now() + PREROLL_MS });
    this.clock.schedule(this.clock.now(), () => this.core.receiveMedia({ type: 'media.anchored', sessionId: event.sessionId }));
  }
}
