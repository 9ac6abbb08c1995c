/** What holds for one node of a program, whatever it runs. */
export interface NodePolicy {
  /** A step that fails is run again from the state that was committed before it. */
  readonly retry?: { /** Tries of one step in all, {@link MIN_ATTEMPTS} to {@link MAX_ATTEMPTS}; default {@link DEFAULT_ATTEMPTS}. */ readonly attempts: number };
  /** Where a cancelled run may end in this node. `unit` (default): after any unit. `item`: once what it has taken is given whole, a chunk or a text. */
  readonly cancellation?: 'unit' | 'item';
  /** What the node does with cached results. `publish` (default): as its loop declares. `read`: takes them, adds none. `none`: neither. */
  readonly cache?: 'publish' | 'read' | 'none';
  /** Which pool of executors the node asks for. */
  readonly placement?: { readonly role: string };
}

/** A loop of the model as programs are checked against it. */
export interface LoopOffer {
  /** Its name in `loops.yaml`. */
  readonly id: string;
  readonly cache: { readonly reads: readonly string[]; readonly publishes: readonly string[] };
}

export const MIN_ATTEMPTS = 1;
export const MAX_ATTEMPTS = 10;
/** One failure is bad luck, two are suspicious, a third would be a fourth. */
export const DEFAULT_ATTEMPTS = 3;

export type PolicyFault = (key: string, problem: string) => never;

/** Checks what a node declares. @param loop the loop that it steps; null for a node without steps, undefined where that isn't known here. @param fault throws. */
export function checkPolicy({ retry, cancellation, cache, placement }: NodePolicy, loop: LoopOffer | null | undefined, fault: PolicyFault): void {
  for (const [key, value] of Object.entries({ retry, cancellation, cache })) if (value !== undefined && loop === null) fault(key, `${JSON.stringify(value)}, but the node steps no loop`);
  if (retry !== undefined && (!Number.isInteger(retry.attempts) || retry.attempts < MIN_ATTEMPTS || retry.attempts > MAX_ATTEMPTS)) fault('retry.attempts', `${retry.attempts}, wanted ${MIN_ATTEMPTS} to ${MAX_ATTEMPTS}`);
  oneOf('cancellation', cancellation, ['unit', 'item'], fault);
  oneOf('cache', cache, ['publish', 'read', 'none'], fault);
  if (cache !== undefined && cache !== 'none' && loop != null) {
    const key = cache === 'read' ? 'reads' : 'publishes';
    if (loop.cache[key].length === 0) fault('cache', `${cache}, but loops.yaml: loops.${loop.id}.cache.${key} is []`);
  }
  if (placement !== undefined && placement.role === '') fault('placement.role', 'is empty, wanted the name of a pool');
}

function oneOf(key: string, value: string | undefined, wanted: readonly string[], fault: PolicyFault): void {
  if (value !== undefined && !wanted.includes(value)) fault(key, `${value}, wanted ${wanted.join(' or ')}`);
}
