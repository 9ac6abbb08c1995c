import type { Clock } from '../../observe/clock.ts';
import type { MediaEvent } from '../../streams/media_events.ts';
import type { EngineToControl, InjectedFault } from '../../streams/messages.ts';
import type { OutstandingBounds } from '../../streams/outstanding_writes.ts';
import type { RealtimeProgram } from '../programs/RealtimeProgram.ts';
import type { ModelIdentity, ScheduledKernel } from '../scheduler/LoopScheduler.ts';
import type { LoadedModel, PreparedWeights, Worker } from '../workers/Worker.ts';
import type { EngineOptions } from './engine_options.ts';
import type { ToStoragePort } from './StoryOutlet.ts';

/** What an engine is made of, and whom it talks to. */
export interface EngineCoreDependencies {
  readonly clock: Clock;
  /** Workers with the model loaded, all the same one. */
  readonly workers: readonly { readonly worker: Worker; readonly loaded: LoadedModel; /** Roles of the pool that it is in; absent: it serves live sessions, and runs that ask for no role. */ readonly roles?: readonly string[] }[];
  readonly kernels: readonly ScheduledKernel[];
  /** By the name that sessions ask for; the first is also what the card is made for. None: the engine takes inline runs only, and makes no card. */
  readonly programs: Readonly<Record<string, RealtimeProgram>>;
  readonly components: readonly string[];
  readonly identity: Pick<ModelIdentity, 'precision' | 'parallelPlanHash'>;
  readonly options?: Partial<EngineOptions>;
  readonly toControl: (message: EngineToControl) => void;
  readonly toMedia: (event: MediaEvent) => void;
  /** Where stories are kept; absent: nowhere. */
  readonly toStorage?: ToStoragePort;
  /** On what may wait there. */
  readonly keepBounds?: OutstandingBounds;
  /** See `ModelReload`. */
  readonly prepareWeights?: () => Promise<readonly PreparedWeights[] | null>;
  /** Test mode: makes the next unit of a session fail. Absent otherwise. */
  readonly injectFault?: (worker: Worker, sessionId: string, fault: InjectedFault) => void;
}
