/** Where and why an authored or converted file doesn't fit: enough to fix it without reading code. */
export interface SpecFault {
  /** File, relative to the model directory. */
  readonly file: string;
  /** 1-based; null where the file itself is at fault. */
  readonly line: number | null;
  /** Dotted path of the key; empty for the whole file. */
  readonly key: string;
  readonly problem: string;
  readonly expected: unknown;
  readonly actual: unknown;
}

/** A model directory that can't be loaded. Raised before any weight is read into a session. */
export class SpecError extends Error {
  override readonly name = 'SpecError';
  readonly fault: SpecFault;
  /** All that are wrong with the same file, the first of them being {@link fault}. */
  readonly faults: readonly SpecFault[];

  constructor(fault: SpecFault, { faults = [fault], ...options }: ErrorOptions & { readonly faults?: readonly SpecFault[] } = {}) {
    super(faultText(fault), options);
    this.fault = fault;
    this.faults = faults;
  }
}

/** `loops.yaml:12: loops.audio.components.0: unknown component: expected ["a","b"], got c`. */
export function faultText({ file, line, key, problem, expected, actual }: SpecFault): string {
  return `${file}${line === null ? '' : `:${line}`}:${key === '' ? '' : ` ${key}:`} ${problem}: expected ${show(expected)}, got ${show(actual)}`;
}

function show(operand: unknown): string {
  return typeof operand === 'string' ? operand : (JSON.stringify(operand) ?? String(operand));
}
