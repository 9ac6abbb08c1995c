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

  constructor(fault: SpecFault, options?: ErrorOptions) {
    const place = fault.line === null ? fault.file : `${fault.file}:${fault.line}`;
    const key = fault.key === '' ? '' : ` ${fault.key}:`;
    super(`${place}:${key} ${fault.problem}: expected ${show(fault.expected)}, got ${show(fault.actual)}`, options);
    this.fault = fault;
  }
}

function show(operand: unknown): string {
  return typeof operand === 'string' ? operand : (JSON.stringify(operand) ?? String(operand));
}
