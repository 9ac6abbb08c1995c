import type { MediaFormat } from '../../../streams/media_time.ts';
import { frameDuration90k } from '../../../streams/media_time.ts';
import type { DeviceModel } from '../loop_kernel.ts';
import type { ComponentSpec } from '../spec/component_spec.ts';
import type { LoopKind, LoopSpec } from '../spec/loop_spec.ts';
import type { StepResult, WorkUnitBatch } from '../work.ts';
import { ArDecodeKernel } from './ar_decode.ts';
import { AudioKernel } from './audio.ts';
import { ComponentGraph } from './component_graph.ts';
import { EncoderChunkKernel } from './encoder_chunk.ts';
import { LogprobRecomputeKernel } from './logprob_recompute.ts';
import { StartBankKernel } from './start_bank.ts';
import { VaeTileDecodeKernel } from './vae_tile_decode.ts';
import { VaeTileEncodeKernel } from './vae_tile_encode.ts';
import { VideoContinuationKernel } from './video_continuation.ts';

/** The part of a ModelSpec that kernels are made from; plain data, so both sides of the executor's port make the same ones. */
export interface KernelSource {
  readonly components: Readonly<Record<string, ComponentSpec>>;
  readonly loops: Readonly<Record<string, LoopSpec>>;
  readonly format: MediaFormat;
}

/** The kernels of a model by LoopSpec kind; a kind that the model has no loop of is absent. */
export interface Kernels {
  readonly encoder_chunk?: EncoderChunkKernel;
  readonly start_bank?: StartBankKernel;
  readonly ar_decode?: ArDecodeKernel;
  readonly video_continuation?: VideoContinuationKernel;
  readonly vae_tile_decode?: VaeTileDecodeKernel;
  readonly audio?: AudioKernel;
  readonly logprob_recompute?: LogprobRecomputeKernel;
  readonly vae_tile_encode?: VaeTileEncodeKernel;
}

/** All that the executor's side needs of a kernel. */
export interface StepRunner {
  runStep(batch: WorkUnitBatch, device: DeviceModel): Promise<StepResult[]>;
}

export type AnyKernel = NonNullable<Kernels[LoopKind]>;

export function createKernels(source: KernelSource): Kernels {
  const kernels: Partial<Record<LoopKind, AnyKernel>> = {};
  for (const loop of Object.values(source.loops)) kernels[loop.kind] = createKernel(loop, source);
  return kernels as Kernels;
}

function createKernel(loop: LoopSpec, { components, format }: KernelSource): AnyKernel {
  const graphs = (ids: readonly string[]): ComponentGraph[] => ids.map((id) => new ComponentGraph(id, components[id]!, loop));
  const [first, second] = graphs(loop.components);
  const frame90k = frameDuration90k(format);
  switch (loop.kind) {
    case 'encoder_chunk':
      return new EncoderChunkKernel(first!);
    case 'start_bank':
      return new StartBankKernel(first!);
    case 'ar_decode':
      return new ArDecodeKernel(first!, second!);
    case 'video_continuation': {
      const [denoise, write] = graphs(loop.adapted ?? []);
      const adapted = denoise === undefined ? null : { denoise, write: write! };
      return new VideoContinuationKernel({ denoise: first!, write: second! }, adapted, loop.denoise!, frame90k);
    }
    case 'vae_tile_decode':
      return new VaeTileDecodeKernel(first!, frame90k);
    case 'audio':
      return new AudioKernel(first!, loop.initial ?? {}, frame90k);
    case 'logprob_recompute':
      return new LogprobRecomputeKernel(first!);
    case 'vae_tile_encode':
      return new VaeTileEncodeKernel(first!, second!);
  }
}
