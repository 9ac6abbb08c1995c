import type { Clock } from '../../observe/clock.ts';
import type { NamedPlan } from '../../protocol/named_plan.ts';
import type { AdapterInForce } from '../../protocol/session_adapter.ts';
import type { EngineToControl, SessionChannels, TraceEvent } from '../../streams/messages.ts';
import type { KeptStory } from '../../streams/storage_messages.ts';
import type { MediaEvent } from '../../streams/media_events.ts';
import type { RealtimeProgram } from '../programs/RealtimeProgram.ts';
import type { KeptRange } from '../../streams/kept_range.ts';
import type { AdmissionGrant } from '../scheduler/AdmissionController.ts';
import type { ChunkReader } from './ChunkReader.ts';
import type { Device } from './Device.ts';
import type { EngineOptions } from './engine_options.ts';
import type { EngineSession } from './EngineSession.ts';
import type { ResumedStory } from './resume_story.ts';
import type { Speculation } from './Speculation.ts';
import type { StoryOutlet } from './StoryOutlet.ts';
import type { WorkSource } from './WorkSource.ts';

export interface SessionDependencies {
  readonly clock: Clock;
  readonly options: EngineOptions;
  readonly toControl: (message: EngineToControl) => void;
  readonly toMedia: (event: MediaEvent) => void;
  readonly trace: (event: TraceEvent) => void;
  /** What may step has changed. */
  readonly changed: (session: EngineSession) => void;
  /** Where committed chunks are kept; null: nowhere. */
  readonly keep: { readonly outlet: StoryOutlet; readonly snapshotChunks: number } | null;
  /** Where kept chunks are read; null: nowhere. */
  readonly reader: ChunkReader | null;
  /** It has changed by itself, and no message follows that would begin a round of dispatching. */
  readonly wake: () => void;
  /** The session has a draft for the first time. */
  readonly speculates: (source: Speculation) => void;
  /** What may step of a draft has changed. */
  readonly draftChanged: (source: Speculation) => void;
  /** A frame came late. */
  readonly late: (session: EngineSession) => void;
}

export interface SessionOpening {
  readonly sessionId: string;
  readonly program: RealtimeProgram;
  readonly seed: number;
  readonly prompt: string | null;
  readonly image: SharedArrayBuffer | null;
  readonly adapter: AdapterInForce | null;
  readonly plan?: NamedPlan;
  readonly strength?: number;
  readonly replay?: KeptRange;
  readonly channels: SessionChannels;
  readonly device: Device<WorkSource>;
  readonly grant: AdmissionGrant;
  /** Goes on from here instead of beginning. */
  readonly resumed: ResumedStory | null;
  /** Of its future, where another session, or another branch, has the same past. */
  readonly lineage?: number;
  /** The branch that it goes on with, and how many there are. */
  readonly branches?: Pick<KeptStory, 'branch' | 'branches'>;
  /** Puts a story that was kept in place. @throws {SegueError} */
  readonly resume: (story: KeptStory) => ResumedStory;
}
