/** Segue as a library: a model in your process, without a server. See docs/guides/library.md. */
export { Engine, type DeploymentCard, type EngineLoadOptions, type EnginePrograms, type ExecutorPool } from './engine/Engine.ts';
export type { EngineEvent, RunOptions } from './engine/EngineRuns.ts';
export type { Generated, GeneratedFrame } from './engine/Generated.ts';
export { InteractiveSession } from './engine/InteractiveSession.ts';
export type { RequestOutcome, SessionEvent, SessionFrame, SessionOptions, SessionRequest } from './engine/session_types.ts';
export { inlineOf, openEngine } from './inline-programs/open_engine.ts';
export { CONTINUE_FROM_VIDEO, LOGPROB_RECOMPUTE, PICTURE_THEN_GENERATE, REASON_THEN_GENERATE, REASON_THEN_GENERATE_DISAGGREGATED, TRANSFORM_VIDEO } from './inline-programs/drive_inline.ts';
export { SegueError, type ErrorCode } from './protocol/errors.ts';
