import { Engine } from '../../src/engine/Engine.ts';
import { PromptProcessor } from '../../src/engine/model/processors/PromptProcessor.ts';
import { continuationModel, driveLanguage } from '../../src/realtime-programs/drive_model.ts';
import { VideoContinuation } from '../../src/realtime-programs/VideoContinuation.ts';
import type { EngineToControl } from '../../src/streams/messages.ts';
import type { LiveSession } from './LiveSession.ts';

const MODEL = new URL('../../models/drive', import.meta.url).pathname;

/** An engine of the real model, batch-invariant, that runs and live sessions share. @param live sessions by id, which get their media. */
export function loadLiveEngine(live: ReadonlyMap<string, LiveSession>, toControl: (message: EngineToControl) => void = () => undefined): Promise<Engine> {
  return Engine.load(MODEL, {
    batchInvariant: true,
    spare: false,
    calibrationRuns: 2,
    live: {
      // Bits are compared: a loaded machine must not change them.
      programs: (spec, kernels) => ({ drive: new VideoContinuation({ ...continuationModel(spec, kernels, driveLanguage(PromptProcessor.load(spec))), reducedSteps: null }) }),
      toControl,
      toMedia: (event) => live.get(event.sessionId)?.play(event),
    },
  });
}
