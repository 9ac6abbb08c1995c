import { signatureText, unitBytes, type TensorSignature } from '../model/spec/tensor_signature.ts';
import type { BlockId, MemoryTag } from '../model/work.ts';

/** One tensor of a transfer: what it is, the block that it is read from, and the one that it becomes. */
export interface ManifestTensor {
  readonly name: string;
  readonly dtype: TensorSignature['dtype'];
  /** Axes of one unit; row-major, without gaps. */
  readonly shape: TensorSignature['shape'];
  readonly memory: MemoryTag;
  readonly from: BlockId;
  readonly to: BlockId;
}

/** All that a connector has to know of one movement of tensors between two executors. Plain data. */
export interface TransferManifest {
  readonly transferId: string;
  /** The stage that made them, and the one that will read them: run, role and worker. */
  readonly producer: TransferParty;
  readonly consumer: TransferParty;
  readonly tensors: readonly ManifestTensor[];
  readonly layout: 'row_major';
  readonly location: 'host' | 'device';
  /** The producer's blocks are held until the transfer has ended; the consumer's belong to its run. */
  readonly lifetime: 'run';
  /** Key of the cache that they are of; null: of none. */
  readonly cacheKey: string | null;
  /** Lower goes first on a link. */
  readonly priority: number;
}

export interface TransferParty {
  readonly runId: string;
  readonly role: string;
  readonly workerId: string;
}

export function manifestBytes({ tensors }: TransferManifest): number {
  return tensors.reduce((sum, tensor) => sum + unitBytes(tensor), 0);
}

/** What lies under a block, as an executor holds it: batch axis of 1 included in `dims`. */
export interface StoredTensor {
  readonly dtype: TensorSignature['dtype'];
  readonly dims: readonly number[];
  readonly buffer: SharedArrayBuffer;
}

/** Compares a tensor with what its manifest says. @throws {TypeError} naming transfer and tensor, and both signatures. */
export function checkTensor({ transferId }: TransferManifest, { name, dtype, shape }: ManifestTensor, stored: StoredTensor | undefined): asserts stored is StoredTensor {
  const declared = { dtype, shape: shape.map((axis) => (axis === 'batch' ? 1 : axis)) };
  if (stored === undefined) throw new TypeError(`transfer ${transferId}: ${name}: the producer holds no such block, wanted ${signatureText(declared)}`);
  const found = { dtype: stored.dtype, shape: [...stored.dims] };
  if (signatureText(found) !== signatureText(declared)) throw new TypeError(`transfer ${transferId}: ${name} is ${signatureText(found)}, its manifest says ${signatureText(declared)}`);
}
