/**
 * The engine thread: schedulers, `planStep`, commits. No kernel runs here. Speaks with the control thread over its parent port and with
 * the media thread over the port it is given.
 */
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { createKernels } from '../engine/model/kernels/create_kernels.ts';
import { PromptProcessor } from '../engine/model/processors/PromptProcessor.ts';
import type { DeploymentSpec } from '../engine/model/spec/deployment_spec.ts';
import { loadModelSpec } from '../engine/model/spec/load_model_spec.ts';
import { languageDigest } from '../engine/model/spec/replaceable_weights.ts';
import { hashParallelPlan, parallelPlan } from '../engine/parallel/ParallelPlan.ts';
import { EngineCore } from '../engine/runtime/EngineCore.ts';
import type { EngineOptions } from '../engine/runtime/engine_options.ts';
import { OnnxWorker } from '../engine/workers/OnnxWorker.ts';
import { weightsReplacement } from '../engine/workers/weights_replacement.ts';
import { monotonicClock } from '../observe/clock.ts';
import { createLogger } from '../observe/log.ts';
import { ERRORS, type ErrorBody } from '../protocol/errors.ts';
import type { ControlToEngine, EngineToControl, EngineToMedia, MediaToEngine } from '../streams/messages.ts';
import { REPLAY_PROGRAM } from '../streams/kept_range.ts';
import type { FromStorage } from '../streams/storage_messages.ts';
import { continuationModel, driveLanguage } from './drive_model.ts';
import { drivePrograms } from './drive_programs.ts';
import { KeptReplay } from './KeptReplay.ts';

export interface EngineThreadData {
  readonly modelDir: string;
  /** Number of devices and programs as the model's `deployment.yaml` says; `engine` overrides scheduling numbers. */
  readonly deployment: Partial<Pick<DeploymentSpec, 'devices' | 'programs'>> & { readonly engine?: Partial<EngineOptions> };
  /** The first chunk that shows a redirect is made in the model's reduced number of steps, where it declares one. */
  readonly redirectPreview?: boolean;
  readonly mediaPort: MessagePort;
  /** To the storage thread; null: nothing is kept. */
  readonly storagePort?: MessagePort | null;
  readonly testMode: boolean;
  readonly logLevel?: string;
}

const { modelDir, deployment, redirectPreview = false, mediaPort, storagePort = null, testMode, logLevel = 'info' } = workerData as EngineThreadData;
const control = parentPort;
if (control === null) throw new TypeError('engine_thread is the entry of a worker thread');
const logger = createLogger({ level: logLevel, name: 'segue-engine' });
const workers: OnnxWorker[] = [];
const post = (message: EngineToControl): void => control.postMessage(message);
/** Whoever is told that the engine is drained may end this thread: its executors must have stopped by then, or they abort the process. */
const toControl = (message: EngineToControl): void => {
  if (message.type === 'engine.drained') void stopWorkers().then(() => end(message));
  else post(message);
};
/** Says so, then lets go of both ports: nothing keeps the thread alive after that. */
const end = (message: EngineToControl): void => {
  post(message);
  mediaPort.close();
  storagePort?.close();
  control.close();
};
const toMedia = (event: EngineToMedia): void => mediaPort.postMessage(event);

// Messages that come while the model loads wait here: a session opened too early is refused by the engine, not lost.
const early: ControlToEngine[] = [];
let core: EngineCore | null = null;
control.on('message', (message: ControlToEngine) => (core === null ? early.push(message) : guarded(() => core!.receive(message))));
mediaPort.on('message', (message: MediaToEngine) => guarded(() => core?.receiveMedia(message)));
storagePort?.on('message', (message: FromStorage) => guarded(() => core?.receiveStorage(message)));

try {
  core = await start();
  core.start();
  for (const message of early.splice(0)) core.receive(message);
} catch (error) {
  logger.fatal({ err: error }, 'engine not started');
  await stopWorkers();
  post({ type: 'engine.failed', error: internal(error) });
}

async function start(): Promise<EngineCore> {
  const spec = loadModelSpec(modelDir);
  const devices = deployment.devices ?? spec.deployment.devices;
  for (let index = 0; index < devices; index++) workers.push(new OnnxWorker({ id: `executor-${index}`, logger, testMode }));
  const loaded = await Promise.all(workers.map(async (worker) => ({ worker, loaded: await worker.loadModel(modelDir) })));
  const kernels = createKernels(spec);
  const model = { ...continuationModel(spec, kernels, driveLanguage(PromptProcessor.load(spec))), previews: redirectPreview };
  return new EngineCore({
    clock: monotonicClock,
    workers: loaded,
    kernels: Object.values(kernels),
    programs: { ...drivePrograms(model, deployment.programs ?? spec.deployment.programs), [REPLAY_PROGRAM]: new KeptReplay(model) },
    components: Object.keys(spec.components),
    identity: { precision: spec.variant.precision, parallelPlanHash: hashParallelPlan(parallelPlan({ replica: devices }, 1)) },
    ...(deployment.engine === undefined ? {} : { options: deployment.engine }),
    prepareWeights: weightsReplacement({ modelDir, serving: { spec, language: languageDigest(spec) }, workers }),
    toControl,
    toMedia,
    ...(storagePort === null ? {} : { toStorage: (message, transfer) => storagePort.postMessage(message, [...transfer]) }),
    ...(testMode ? { injectFault: (worker, sessionId, fault) => worker instanceof OnnxWorker && worker.injectFault({ sessionId, fault }) } : {}),
  });
}

async function stopWorkers(): Promise<void> {
  core?.close();
  await Promise.all(workers.map((worker) => worker.close()));
}

/** A fault in handling one message must not end the thread, and with it every session. */
function guarded(run: () => void): void {
  try {
    run();
  } catch (error) {
    logger.error({ err: error }, 'a message could not be handled');
  }
}

function internal(error: unknown): ErrorBody {
  return { code: 'internal', message: error instanceof Error ? error.message : String(error), retryable: ERRORS.internal.retryable };
}
