import { createHash } from 'node:crypto';
import { cpus } from 'node:os';

export interface FingerprintParts {
  readonly runtime: string;
  readonly provider: string;
  readonly intraOpThreads: number;
  readonly batchInvariant: boolean;
}

/**
 * What results are bit-equal on: runtime, provider, threads, and the processor, whose instruction set picks the kernels.
 * The engine of JavaScript belongs to it too: it computes the noise. Readable parts first, so that a difference explains itself.
 */
export function machineFingerprint({ runtime, provider, intraOpThreads, batchInvariant }: FingerprintParts): string {
  const machine = `${process.arch} ${cpus()[0]?.model ?? 'unknown processor'}`;
  const parts = [runtime, provider, `v8 ${process.versions.v8}`, machine, `threads ${intraOpThreads}`, batchInvariant ? 'batch-invariant' : 'batch-variant'];
  const digest = createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 12);
  return `${parts.join(' / ')} / ${digest}`;
}
