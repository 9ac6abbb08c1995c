import type { BlockId } from '../model/work.ts';
import type { ManifestTensor, StoredTensor, TransferManifest } from './TransferManifest.ts';

/** An executor that blocks are read from. */
export interface TransferSource {
  view(block: BlockId): StoredTensor | undefined;
}

/** An executor that blocks come to; `put` hands the memory over. */
export interface TransferDestination {
  put(tensor: ManifestTensor, stored: StoredTensor): void;
}

/**
 * Moves tensors between two executors, as a manifest says. The engine allocates the ids on both sides, holds the source until the promise settles and watches the time; a connector moves bytes and
 * decides nothing. In this process there is {@link InProcessConnector}; CUDA IPC, UCXX or NIXL would be others.
 */
export interface Connector {
  readonly name: string;
  /** All tensors or none: rejects where one is not as the manifest says, and has put none then. */
  transfer(manifest: TransferManifest, source: TransferSource, destination: TransferDestination): Promise<void>;
}
