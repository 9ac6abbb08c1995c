import { createKernels } from '../../src/engine/model/kernels/create_kernels.ts';
import { PromptProcessor } from '../../src/engine/model/processors/PromptProcessor.ts';
import { shapeKeyOf } from '../../src/engine/model/spec/component_spec.ts';
import { loadModelSpec } from '../../src/engine/model/spec/load_model_spec.ts';
import type { WorkUnitBatch } from '../../src/engine/model/work.ts';
import { EngineCore } from '../../src/engine/runtime/EngineCore.ts';
import type { EngineOptions } from '../../src/engine/runtime/engine_options.ts';
import { VirtualClock } from '../../src/observe/virtual_clock.ts';
import { continuationModel, driveLanguage } from '../../src/realtime-programs/drive_model.ts';
import { VideoContinuation } from '../../src/realtime-programs/VideoContinuation.ts';
import { joinedMs } from '../../src/simulation/unit_costs.ts';
import type { EngineToControl, TraceEvent } from '../../src/streams/messages.ts';
import { ComputedWorker } from './ComputedWorker.ts';
import { WatchingViewer } from './WatchingViewer.ts';

/** Milliseconds of one unit alone on one core: the table of the virtual schedules, at the speed of the machine of `docs/benchmarks.md` (10 ms a denoise step, 17 ms a plan of eight words). */
export const UNIT_MS: Readonly<Record<string, number>> = { director_prefill: 3.5, director_step: 2, text_encoder: 1.5, start_bank: 0.2, denoise_step: 10, clean_write: 10, vae_decode: 13, audio_synth: 1.2, director_logprob: 3, vae_encode: 18 };

export interface DriveOptions {
  readonly engine: Partial<EngineOptions>;
  /** How many times faster than {@link UNIT_MS} the device is. */
  readonly speed: number;
  /** Runs all graphs, so that pictures can be judged; else the director's alone, whose words decide how long it takes. */
  readonly pictures: boolean;
  /** Other sessions beside the measured one. */
  readonly load: number;
  /** The first chunk that shows a redirect is made in fewer steps. */
  readonly previews?: boolean;
  readonly seed: number;
}

/** The engine with the model that it serves, on a virtual clock, and somebody who watches. */
export class VirtualDrive {
  readonly clock: VirtualClock;
  readonly core: EngineCore;
  readonly worker: ComputedWorker;
  readonly viewer: WatchingViewer;
  /** Traces, faults and failures. */
  readonly messages: EngineToControl[];
  readonly #others: readonly WatchingViewer[];

  private constructor(clock: VirtualClock, core: EngineCore, worker: ComputedWorker, viewers: readonly WatchingViewer[], messages: EngineToControl[]) {
    this.clock = clock;
    this.core = core;
    this.worker = worker;
    this.viewer = viewers[0]!;
    this.messages = messages;
    this.#others = viewers.slice(1);
  }

  static async open({ engine, speed, pictures, load, previews = false, seed }: DriveOptions): Promise<VirtualDrive> {
    const clock = new VirtualClock();
    const spec = loadModelSpec(new URL('../../models/drive', import.meta.url).pathname, { verifyChecksums: false });
    const kernels = createKernels(spec);
    const program = new VideoContinuation({ ...continuationModel(spec, kernels, driveLanguage(PromptProcessor.load(spec))), previews });
    const batchMs = ({ component, units }: Pick<WorkUnitBatch, 'component' | 'units'>): number => joinedMs(UNIT_MS[component]! / speed, units.length);
    const cost = Object.keys(spec.components).flatMap((component) =>
      [1, 2, 4].map((batch) => ({ component, shapeKey: shapeKeyOf(component, spec.components[component]!), batch, p50Ms: joinedMs(UNIT_MS[component]! / speed, batch), p95Ms: joinedMs(UNIT_MS[component]! / speed, batch) })),
    );
    const loaded = { modelId: spec.modelId, weightsVersion: spec.checkpoint.weightsVersion, fingerprint: 'virtual', cost };
    const worker = await ComputedWorker.open({ clock, spec, kernels, loaded, batchMs, computes: (component) => pictures || component.startsWith('director_') });
    const viewers = new Map<string, WatchingViewer>();
    const messages: EngineToControl[] = [];
    const core = new EngineCore({
      clock,
      workers: [{ worker, loaded }],
      kernels: Object.values(kernels),
      programs: { drive: program },
      components: Object.keys(spec.components),
      identity: { precision: 'fp32', parallelPlanHash: 'single' },
      // Both sides make what the model declares, however late it comes.
      options: { admissionBound: 1, reducedSteps: false, ...engine },
      toControl: (message) => {
        if (message.type === 'trace' || message.type === 'session.fault' || message.type === 'session.refused' || message.type === 'request.failed') messages.push(message);
      },
      toMedia: (event) => viewers.get(event.sessionId)?.onMedia(event),
    });
    core.start();
    const { format } = program;
    for (let index = 0; index <= load; index++) {
      const sessionId = `s${index}`;
      const viewer = new WatchingViewer({ sessionId, clock, engine: core, pictureBytes: format.width * format.height * 3, soundBytes: (format.audioSampleRate / format.framesPerSecond) * 2, keeps: pictures && index === 0 });
      viewers.set(sessionId, viewer);
      core.receive({ type: 'session.open', sessionId, model: spec.modelId, program: 'drive', seed: seed + index, prompt: 'forest at day', image: null, tenant: 't', channels: viewer.channels });
    }
    return new VirtualDrive(clock, core, worker, [...viewers.values()], messages);
  }

  traces(name: string): TraceEvent[] {
    return this.messages.flatMap((message) => (message.type === 'trace' ? message.events.filter((event) => event.name === name) : []));
  }

  /** Lets virtual time pass, but never past a result that is still being computed. */
  async run(ms: number): Promise<void> {
    const untilMs = this.clock.now() + ms;
    while (this.clock.now() < untilMs) {
      await this.worker.idle();
      await this.clock.advanceTo(Math.min(untilMs, this.clock.now() + STEP_MS));
    }
    await this.worker.idle();
  }

  async close(): Promise<void> {
    for (const viewer of [this.viewer, ...this.#others]) viewer.words.markClosed();
    this.core.close();
    await this.worker.close();
  }
}

/** Shorter than what is long to compute; a result that is late is late by no more. */
const STEP_MS = 1;
