import type { SegueError } from '../../protocol/errors.ts';
import type { ActionState } from '../../streams/session_words.ts';
import type { SharedPool } from '../../streams/shared_pool.ts';
import type { LoopState } from '../model/loop_kernel.ts';
import type { WorkPlan } from '../model/work.ts';
import type { CommittedStep, Predict } from '../programs/RealtimeProgram.ts';
import type { ActionLatch } from '../scheduler/ActionLatch.ts';
import type { AdmissionGrant } from '../scheduler/AdmissionController.ts';
import type { BandwidthServer } from '../scheduler/BandwidthServer.ts';
import type { LoopTurn } from '../scheduler/LoopTurn.ts';
import type { PresentationTimeline } from '../scheduler/PresentationTimeline.ts';
import type { QueuedTurn } from '../scheduler/ReadyQueue.ts';
import type { WorkUnit } from '../scheduler/WorkUnit.ts';
import type { Device } from './Device.ts';

/** What ran: told to whoever commits it. */
export type CommittedUnit = Pick<WorkUnit, 'plan' | 'action' | 'conditioning'>;

/**
 * Whoever has steps to take on a device: a live session, or an inline run that ends. All that dispatching and committing know of either,
 * so both go through the same queue, reservations, batches and commit rule.
 */
export interface WorkSource {
  /** Names it to workers and in traces; unique among sources. */
  readonly sessionId: string;
  readonly programId: string;
  readonly seed: number;
  readonly device: Device<WorkSource>;
  readonly grant: AdmissionGrant;
  readonly pools: { readonly video: SharedPool; readonly audio: SharedPool };
  readonly timeline: Pick<PresentationTimeline, 'releaseMs' | 'deadlineMs'>;
  readonly reserve: Pick<BandwidthServer, 'deadline' | 'charge'>;
  /** All that was promised to it, for work in place of its media; absent where there is none. */
  readonly share?: Pick<BandwidthServer, 'deadline' | 'charge'>;
  readonly latch: Pick<ActionLatch, 'read'>;
  /** Held input for a step that is planned now with live conditioning. */
  readonly action: ActionState;
  readonly epoch: number;
  /** What results are compared with: raised before anybody is told. */
  readonly epochWord: number;
  readonly closed: boolean;
  /** A step of it has failed and is tried again: alone. */
  readonly suspect: boolean;
  readonly boostedSinceMs: number | null;
  /** No chunk is in flight; read by the baseline policies. */
  readonly betweenChunks: boolean;
  /** The unit that a worker has; one at a time. */
  inFlight: WorkUnit | null;
  queued: QueuedTurn<WorkSource>[];
  /** When work without a frame began to wait. */
  slackSinceMs: number | null;
  /** Reservation of the next unit has failed since then. */
  refusedSinceMs: number | null;

  turns(): readonly LoopTurn[];
  fenced(): boolean;
  /** The loop state that is current for a turn: a result that was planned from another one is void. */
  current(loopId: string): LoopState | null;
  /** Computes what follows from a step, changing nothing; throws where its program does. What it returns commits. */
  stage(step: CommittedStep, predict: Predict): (unit: CommittedUnit) => void;
  failed(error: SegueError, plan: WorkPlan, loopId: string): void;
  fault(error: SegueError, fatal: boolean): void;
  /** Its share of a batch that was run, committed or not, device milliseconds. */
  spent?(deviceMs: number): void;
}

/** Names a step among those of its source: failures are counted by it. */
export function stepOf({ component, step }: WorkPlan): string {
  return `${component}/${step}`;
}
