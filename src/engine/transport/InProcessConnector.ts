import type { Connector, TransferDestination, TransferSource } from './Connector.ts';
import { checkTensor, type ManifestTensor, type StoredTensor, type TransferManifest } from './TransferManifest.ts';

/** Executors are threads of this process, and their blocks lie in shared memory: one copy, so that each side frees its own. */
export class InProcessConnector implements Connector {
  readonly name = 'in_process';

  async transfer(manifest: TransferManifest, source: TransferSource, destination: TransferDestination): Promise<void> {
    // Everything is looked at before anything is put.
    const copies = manifest.tensors.map((tensor): readonly [ManifestTensor, StoredTensor] => {
      const stored = source.view(tensor.from);
      checkTensor(manifest, tensor, stored);
      const buffer = new SharedArrayBuffer(stored.buffer.byteLength);
      new Uint8Array(buffer).set(new Uint8Array(stored.buffer));
      return [tensor, { dtype: stored.dtype, dims: stored.dims, buffer }];
    });
    for (const [tensor, stored] of copies) destination.put(tensor, stored);
  }
}
