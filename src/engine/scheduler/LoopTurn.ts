import type { AppliedAdapter, Conditioning, LoopState, PromptBlocks, WeightedPrompt } from '../model/loop_kernel.ts';
import type { MediaTime90k } from '../../streams/media_time.ts';

/**
 * One loop of a program that may take its next step now. Not a unit yet: the kernel plans the unit at dispatch, so that whatever a
 * person does until then still counts.
 */
export interface LoopTurn {
  /** Role of the loop in its program, for example `video`. */
  readonly loopId: string;
  /** Kernel that plans and runs it. */
  readonly kernel: string;
  /** Component that the next step will run; turns of one component may share a batch. */
  readonly component: string;
  /** State to step from. The result is void if the program has moved on to another one. */
  readonly state: LoopState;
  readonly lineage: number;
  readonly conditioning: TurnConditioning;
  /** Start of the frame that this step leads to; null for work without one. */
  readonly leadsTo: MediaTime90k | null;
  /** Components that must still run, one after another, between this step and that frame. */
  readonly after: readonly string[];
  /** Opens new media: waits for its look-ahead. Everything else is due as soon as it is there. */
  readonly opensMedia: boolean;
  /** Served from the session's redirect reserve. */
  readonly boosted: boolean;
  /** Brings back what was: due as its session's share of the device pays for it, whenever its media is wanted. */
  readonly restores?: true;
  /** What its program leaves of the cache that its loop declares: takes results and adds none, or neither. Absent: all of it. */
  readonly cache?: 'read' | 'none';
  /** Handed back with the step to the program that offered the turn; nobody else reads it. */
  readonly memo?: unknown;
}

/**
 * `live`: prompt as given, held action read at planning. `fixed`: what an earlier step ran under, because this one completes it.
 */
export type TurnConditioning =
  | { readonly kind: 'live'; readonly version: number; readonly prompt: PromptBlocks | null; readonly mix?: readonly WeightedPrompt[]; readonly adapter?: AppliedAdapter | null; readonly steps?: number }
  | { readonly kind: 'fixed'; readonly conditioning: Conditioning };
