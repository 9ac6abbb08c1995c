import type { AppliedAdapter } from '../loop_kernel.ts';
import { ADAPTER_SCALE, ADAPTER_TENSORS } from '../spec/adapter_spec.ts';
import type { ComponentSpec } from '../spec/component_spec.ts';
import { unitShape } from '../spec/tensor_signature.ts';
import type { UnitInput } from '../work.ts';

/** An adapter as inputs of an adapted graph: its tensors by name, which lie with the executor, and its scale [1]. */
export function adapterInputs({ id, scale }: AppliedAdapter, { inputs }: ComponentSpec): Record<string, UnitInput> {
  const tensors = ADAPTER_TENSORS.map((tensor) => [tensor, { kind: 'adapter', adapter: id, tensor, shape: unitShape(inputs[tensor]!) }] as const);
  return { ...Object.fromEntries(tensors), [ADAPTER_SCALE]: { kind: 'floats', values: [scale], shape: [1] } };
}
