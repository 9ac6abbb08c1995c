import type { BlockId, UnitOutput } from '../model/work.ts';
import type { PlannedTurn } from '../scheduler/WorkUnit.ts';
import type { WorkSource } from './WorkSource.ts';

/** A place for every output that a plan declares: blocks of the session's account, slots of its pools. All or, where anything is lacking, null and nothing taken. */
export function reserveOutputs(session: WorkSource, { plan }: PlannedTurn): Readonly<Record<string, UnitOutput>> | null {
  const { device, grant, pools } = session;
  const declared = Object.entries(plan.outputs);
  const requests = declared.flatMap(([, output]) => (output.kind === 'block' ? [output] : []));
  const blocks = device.pool.allocate(grant.account, requests);
  if (blocks === null) return null;
  const free: BlockId[] = [...blocks];
  const outputs: Record<string, UnitOutput> = {};
  for (const [name, output] of declared) {
    if (output.kind === 'block') outputs[name] = { kind: 'block', block: free.shift()!, bytes: output.bytes };
    else if (output.kind === 'value') outputs[name] = { kind: 'value' };
    else {
      const slot = pools[output.pool].acquire();
      if (slot === null) {
        for (const taken of Object.values(outputs)) if (taken.kind === 'slot') pools[taken.pool].release(taken.slot);
        device.pool.release(blocks);
        return null;
      }
      outputs[name] = { kind: 'slot', pool: output.pool, slot };
    }
  }
  return outputs;
}
