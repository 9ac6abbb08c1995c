import { createHash } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { AuthoredModel } from './cross_check.ts';

/** Compares what lies in the directory with what the manifest says of it. @throws {SpecError} at the first file that is missing or another. */
export function checkFiles(dir: string, { model, manifest }: AuthoredModel, verifyChecksums: boolean): void {
  for (const [name, { sha256, bytes }] of Object.entries(manifest.value.files)) {
    const path = ['files', name];
    let size: number;
    try {
      size = statSync(join(dir, name)).size;
    } catch (error) {
      throw manifest.fault(path, 'file is missing', name, (error as NodeJS.ErrnoException).code);
    }
    if (size !== bytes) throw manifest.fault([...path, 'bytes'], `size of ${name}`, bytes, size);
    if (!verifyChecksums) continue;
    const actual = createHash('sha256').update(readFileSync(join(dir, name))).digest('hex');
    if (actual !== sha256) throw manifest.fault([...path, 'sha256'], `checksum of ${name}`, sha256, actual);
  }
  for (const [id, processor] of Object.entries(model.value.processors)) {
    for (const key of ['vocabulary', 'rules'] as const) {
      if (!existsSync(join(dir, processor[key]))) throw model.fault(['processors', id, key], 'file is missing', processor[key], 'nothing');
    }
  }
}
