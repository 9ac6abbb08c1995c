import type { Predict } from '../engine/programs/RealtimeProgram.ts';
import type { ContinuationComponents } from './continuation_model.ts';

export type ChangeHow = 'restart' | 'steer' | 'continue';

/** Where the chunk in flight stands when a new scene is ready. */
export interface ChunkProgress {
  readonly stepsDone: number;
  readonly stepsLeft: number;
  /** 1 = pure noise, 0 = clean. */
  readonly noise: number;
  /** Start frames: not generated, so they can't be generated again. */
  readonly seeded: boolean;
  /** Denoised: only decoding is left. */
  readonly ready: boolean;
  readonly framesLeft: number;
}

export interface ChoiceQuestion {
  /** The request fenced: everything generated but unseen is gone already, so a chunk in flight directly follows what was seen. */
  readonly fenced: boolean;
  readonly chunk: ChunkProgress | null;
  /** Denoise steps of the first chunk that is made under the new scene. */
  readonly steps: number;
  readonly steerUntil: number;
  /** Keys and values of the chunk before are still to be written. */
  readonly writePending: boolean;
}

export interface ChangeOption {
  readonly how: ChangeHow;
  /** Device milliseconds until the first changed frame is ready. */
  readonly predictedMs: number;
}

/**
 * The legal ways in which a new scene can take effect, soonest first. Pure.
 *
 * - *steer*: the remaining steps of the chunk in flight run under the new scene; only while it is still noisy enough.
 * - *restart*: the chunk in flight is dropped and made anew; only where the request fenced.
 * - *continue*: the next chunk is the first; where old frames may flow on, or can't be replaced (start frames).
 */
export function changeOptions({ fenced, chunk, steps, steerUntil, writePending }: ChoiceQuestion, components: ContinuationComponents, predict: Predict): ChangeOption[] {
  const denoise = predict(components.denoise);
  const frame = predict(components.picture) + predict(components.sound);
  const write = writePending ? predict(components.write) : 0;
  const wholeChunk = steps * denoise + frame;
  const options: ChangeOption[] = [];
  if (chunk !== null && !chunk.seeded && !chunk.ready && chunk.stepsDone > 0 && chunk.noise > steerUntil) {
    options.push({ how: 'steer', predictedMs: chunk.stepsLeft * denoise + frame });
  }
  if (fenced && chunk?.seeded !== true) options.push({ how: 'restart', predictedMs: write + wholeChunk });
  if (!fenced || chunk?.seeded === true) {
    const current = chunk === null ? write : (chunk.ready ? 0 : chunk.stepsLeft * denoise) + chunk.framesLeft * frame + predict(components.write);
    options.push({ how: 'continue', predictedMs: current + wholeChunk });
  }
  return options.sort((a, b) => a.predictedMs - b.predictedMs);
}
