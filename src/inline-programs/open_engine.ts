import { Engine, type EngineLoadOptions, type EnginePrograms, type ExecutorPool } from '../engine/Engine.ts';
import type { Kernels } from '../engine/model/kernels/create_kernels.ts';
import { PromptProcessor } from '../engine/model/processors/PromptProcessor.ts';
import type { ModelSpec } from '../engine/model/spec/model_spec.ts';
import { driveLanguage } from '../realtime-programs/drive_model.ts';
import { drivePrograms } from '../realtime-programs/drive_programs.ts';
import { CONTINUE_FROM_VIDEO, driveInline, LOGPROB_RECOMPUTE, PICTURE_THEN_GENERATE, REASON_THEN_GENERATE, REASON_THEN_GENERATE_DISAGGREGATED, TRANSFORM_VIDEO, type DriveInline } from './drive_inline.ts';

const INLINE = [REASON_THEN_GENERATE, PICTURE_THEN_GENERATE, CONTINUE_FROM_VIDEO, TRANSFORM_VIDEO, LOGPROB_RECOMPUTE];

/** The loops of a loaded model, ready to be composed to programs of your own. */
export function inlineOf({ spec, kernels }: Pick<Engine, 'spec' | 'kernels'>): DriveInline {
  return driveInline(spec, kernels, driveLanguage(PromptProcessor.load(spec)));
}

/**
 * Opens a model directory as an engine in this process: live programs as its `deployment.yaml` says, inline programs as its `programs.yaml` does.
 * @throws {SpecError} naming file and key, for a model that is not as its files say.
 */
export function openEngine(modelDir: string, options: Omit<EngineLoadOptions, 'programs'> = {}): Promise<Engine> {
  return Engine.load(modelDir, { ...options, programs: modelPrograms });
}

function modelPrograms(spec: ModelSpec, kernels: Kernels, pools: readonly ExecutorPool[]): EnginePrograms {
  const drive = inlineOf({ spec, kernels });
  const declared = INLINE.filter(({ programId }) => spec.programs[programId]?.kind === 'inline');
  const roles = new Set(pools.flatMap((pool) => pool.roles));
  // Offered where there is a pool for each of its roles.
  const split = [REASON_THEN_GENERATE_DISAGGREGATED].filter(({ programId, nodes }) => spec.programs[programId]?.kind === 'disaggregated' && Object.values(nodes).every(({ placement }) => placement === undefined || roles.has(placement.role)));
  return {
    live: drivePrograms(drive.model, spec.deployment.programs),
    inline: Object.fromEntries([...declared.map((program) => [program.programId, drive.program(program)] as const), ...split.map((program) => [program.programId, drive.disaggregated(program)] as const)]),
  };
}
