import { shapeKeyOf, type ComponentSpec } from '../spec/component_spec.ts';
import type { LoopSpec } from '../spec/loop_spec.ts';
import { unitBytes, type OutputSignature } from '../spec/tensor_signature.ts';
import type { CachePlan, OutputDeclaration, PlanState, UnitInput, WorkPlan, WorkUnitKind } from '../work.ts';

export interface StepDeclaration {
  readonly kind: WorkUnitKind;
  readonly step: number;
  readonly inputs: Readonly<Record<string, UnitInput>>;
  readonly state: PlanState;
  readonly leadsTo: number | null;
  readonly cache?: CachePlan;
}

/** Binds a loop to one component's graph: turns "run it on these inputs" into a complete {@link WorkPlan}. */
export class ComponentGraph {
  readonly componentId: string;
  readonly spec: ComponentSpec;
  readonly shapeKey: string;
  readonly #maxBatch: number;
  readonly #outputs: Readonly<Record<string, OutputDeclaration>>;

  constructor(componentId: string, spec: ComponentSpec, loop: LoopSpec) {
    this.componentId = componentId;
    this.spec = spec;
    this.shapeKey = shapeKeyOf(componentId, spec);
    this.#maxBatch = loop.step.maxBatch;
    this.#outputs = declareOutputs(spec);
  }

  plan({ kind, step, inputs, state, leadsTo, cache }: StepDeclaration): WorkPlan {
    return {
      kind,
      component: this.componentId,
      step,
      shapeKey: this.shapeKey,
      maxBatch: this.#maxBatch,
      inputs,
      outputs: this.#outputs,
      state,
      boundary: true,
      leadsTo,
      cache: cache ?? null,
    };
  }
}

/** Every output of a component, declared as its spec says where it goes. */
export function declareOutputs(spec: ComponentSpec): Readonly<Record<string, OutputDeclaration>> {
  return Object.fromEntries(Object.entries(spec.outputs).map(([name, signature]) => [name, declare(signature)]));
}

function declare(signature: OutputSignature): OutputDeclaration {
  switch (signature.to) {
    case 'kv':
    case 'activations':
      return { kind: 'block', bytes: unitBytes(signature), memory: signature.to };
    case 'video':
    case 'audio':
      return { kind: 'slot', pool: signature.to };
    case 'value':
      return { kind: 'value' };
  }
}
