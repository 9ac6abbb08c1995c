/** Consistency levels: each component, each loop's trajectory, log-probabilities of sampled tokens, what comes out at the end. */
export type ParityLevel = 'C0' | 'C1' | 'C2' | 'C4';

/** What one check measured. The same checks judge the shipped weights and those of a wrong conversion. */
export interface Finding {
  readonly level: ParityLevel;
  readonly subject: string;
  /** Largest difference, or what is missing to 1; in units of the tolerance's. */
  readonly worst: number;
  readonly tolerance: number;
  readonly passed: boolean;
}

export function finding(level: ParityLevel, subject: string, worst: number, tolerance: number): Finding {
  return { level, subject, worst, tolerance, passed: worst <= tolerance };
}

export function findingText({ level, subject, worst, tolerance, passed }: Finding): string {
  return `${passed ? 'pass' : 'FAIL'}  ${level} ${subject}: ${worst.toPrecision(3)} (tolerance ${tolerance})`;
}
