import { createKernels } from '../engine/model/kernels/create_kernels.ts';
import type { ModelSpec } from '../engine/model/spec/model_spec.ts';
import { EngineCore } from '../engine/runtime/EngineCore.ts';
import { SimulatedWorker } from '../engine/runtime/SimulatedWorker.ts';
import type { Clock } from '../observe/clock.ts';
import { continuationModel } from '../realtime-programs/drive_model.ts';
import { VideoContinuation } from '../realtime-programs/VideoContinuation.ts';
import type { MediaEvent } from '../streams/media_events.ts';
import type { ControlToEngine, EngineStats, EngineToControl, MediaToEngine } from '../streams/messages.ts';
import type { Scenario } from './scenario.ts';
import { spokenNumbers, spokenValues } from './spoken_numbers.ts';
import type { UnitCosts } from './unit_costs.ts';
import type { ViewedEngine } from './SimulatedViewer.ts';

export const PROGRAM = 'drive';
const MIB = 1024 * 1024;
const DEFAULT_WORDS = { plan: 8, narration: 6 };

/** What the engine says to one session. */
export interface SessionListener {
  onControl(message: EngineToControl): void;
  onMedia(event: MediaEvent): void;
}

export interface SimulatedServerOptions {
  readonly id: string;
  readonly clock: Clock;
  readonly spec: ModelSpec;
  readonly scenario: Scenario;
  readonly costs: UnitCosts;
  /** Normal with mean 0 and deviation 1: how units of this server vary. */
  readonly normal: () => number;
}

/** The engine that serves, over devices that are a clock. */
export class SimulatedServer implements ViewedEngine {
  readonly program: VideoContinuation;
  /** Batches by how many units they joined. */
  readonly batches = { count: 0, units: 0 };
  readonly #core: EngineCore;
  readonly #sessions = new Map<string, SessionListener>();

  constructor({ id, clock, spec, scenario, costs, normal }: SimulatedServerOptions) {
    const { jitter = 0, devicesPerServer, engine = {}, words = DEFAULT_WORDS } = scenario;
    const { memoryMegabytes, ...options } = engine;
    const kernels = createKernels(spec);
    this.program = new VideoContinuation(continuationModel(spec, kernels, spokenNumbers(words)));
    const loaded = { modelId: spec.modelId, weightsVersion: spec.checkpoint.weightsVersion, fingerprint: 'simulated', cost: costs.entries(spec) };
    const workers = Array.from({ length: devicesPerServer }, (_, device) => ({
      worker: new SimulatedWorker({
        id: `${id}.${device}`,
        clock,
        loaded,
        kernels: { ...kernels },
        values: spokenValues(words),
        outcome: ({ component, units }) => {
          this.batches.count++;
          this.batches.units += units.length;
          return { deviceMs: costs.batchMs(component, units.length) * Math.exp(jitter * normal()), answer: 'ok' };
        },
      }),
      loaded,
    }));
    this.#core = new EngineCore({
      clock,
      workers,
      kernels: Object.values(kernels),
      programs: { [PROGRAM]: this.program },
      components: Object.keys(spec.components),
      identity: { precision: spec.variant.precision, parallelPlanHash: 'simulated' },
      options: { ...options, ...(memoryMegabytes === undefined ? {} : { memory: { kv: memoryMegabytes * MIB, activations: memoryMegabytes * MIB } }) },
      toControl: (message) => {

        if (message.type !== 'trace' && 'sessionId' in message) this.#sessions.get(message.sessionId)?.onControl(message);
      },
      toMedia: (event) => this.#sessions.get(event.sessionId)?.onMedia(event),
    });
    this.#core.start();
  }

  /** Sessions that are open on it, or being opened. */
  get size(): number {
    return this.#sessions.size;
  }

  listen(sessionId: string, listener: SessionListener): void {
    this.#sessions.set(sessionId, listener);
  }

  forget(sessionId: string): void {
    this.#sessions.delete(sessionId);
  }

  receive(message: ControlToEngine): void {
    this.#core.receive(message);
  }

  receiveMedia(message: MediaToEngine): void {
    this.#core.receiveMedia(message);
  }

  stats(): EngineStats {
    return this.#core.stats();
  }

  close(): void {
    this.#core.close();
  }
}
