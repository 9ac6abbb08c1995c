import type { BlockId, UnitInput } from '../work.ts';

/** Keys and values of one finished chunk. */
export interface WindowEntry {
  readonly k: BlockId;
  readonly v: BlockId;
}

/** Additive attention mask of what must not be seen; finite, so that a fully masked row is harmless. */
const MASKED = -1e4;

/**
 * The rolling window as graph inputs `k0 v0 … k6 v6`, oldest first and right-aligned, one input per chunk: joining them beforehand
 * would copy the whole window at every step. Places without a chunk are zeros behind the mask `window_mask` [1, 1, chunks].
 */
export function windowInputs(window: readonly WindowEntry[], chunks: number, shape: readonly number[]): Record<string, UnitInput> {
  const inputs: Record<string, UnitInput> = {};
  const missing = chunks - window.length;
  for (let place = 0; place < chunks; place++) {
    const entry = window[place - missing];
    inputs[`k${place}`] = entry === undefined ? { kind: 'zeros', shape } : { kind: 'block', block: entry.k };
    inputs[`v${place}`] = entry === undefined ? { kind: 'zeros', shape } : { kind: 'block', block: entry.v };
  }
  const mask = Array.from({ length: chunks }, (_, place) => (place < missing ? MASKED : 0));
  inputs['window_mask'] = { kind: 'floats', values: mask, shape: [1, 1, chunks] };
  return inputs;
}
