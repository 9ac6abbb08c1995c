import type { ContinuationModel } from './continuation_model.ts';
import type { ContinuationState, Scene } from './continuation_state.ts';

/** Denoise steps of the chunk that begins next. @param wish that it is the first to show, if any. */
export function stepsOfNextChunk(
  { steps, reducedSteps, previews }: Pick<ContinuationModel, 'steps' | 'reducedSteps' | 'previews'>,
  { reduced, incoming }: Pick<ContinuationState, 'reduced' | 'incoming'>,
  wish: Pick<Scene, 'requestId' | 'over'> | null,
): number {
  // What comes in is noised only in part, and takes the steps that are left of all.
  if (reducedSteps === null || incoming !== null) return steps;
  const preview = previews === true && wish !== null && wish.requestId !== null && wish.over === null;
  return reduced || preview ? reducedSteps : steps;
}
