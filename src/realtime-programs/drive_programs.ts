import type { ContinuationModel } from './continuation_model.ts';
import { VideoContinuation } from './VideoContinuation.ts';

/** Noise level that chunks of an incoming video are made from, where a session doesn't say: see `docs/decisions.md`. */
export const DEFAULT_STRENGTH = 0.75;

/** The live programs of `drive`, by the names that a deployment serves them under. */
const PROGRAMS: Readonly<Record<string, (model: ContinuationModel) => VideoContinuation>> = {
  drive: (model) => new VideoContinuation(model),
  drive_omni: (model) => new VideoContinuation(model, null, { aloud: true }),
  drive_transform: (model) => new VideoContinuation(model, { strength: DEFAULT_STRENGTH }),
};

/** @throws {TypeError} for a name that no live program has, or one that the model can't run. */
export function drivePrograms(model: ContinuationModel, served: readonly string[]): Record<string, VideoContinuation> {
  return Object.fromEntries(
    served.map((name) => {
      const make = PROGRAMS[name];
      if (make === undefined) throw new TypeError(`no live program ${name}; there are ${Object.keys(PROGRAMS).join(', ')}`);
      return [name, make(model)];
    }),
  );
}
