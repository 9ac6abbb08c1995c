import { createHash } from 'node:crypto';
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import assert from 'node:assert/strict';
import { MODEL_DIR } from '../ExecutorBench.ts';

interface Place {
  readonly file: string;
  readonly offset: number;
  readonly bytes: number;
}

interface MappedKey {
  readonly file: string;
  readonly source: string;
  readonly shape: readonly number[];
  readonly stored?: readonly Place[];
}

interface Manifest {
  readonly files: Record<string, { sha256: string; bytes: number }>;
  readonly components: Readonly<Record<string, { readonly key_mapping: readonly MappedKey[] }>>;
}

/** Two source keys of one shape, and a component that holds both. */
export interface Exchange {
  readonly component: string;
  readonly keys: readonly [string, string];
}

/**
 * A model folder as a conversion with a wrong key mapping would have written it: the values of source keys of equal shape stand in each
 * other's place, everything else is right, and the checksums are those of the wrong weights. So it loads; only its numbers can tell.
 */
export class WrongModel {
  readonly dir = mkdtempSync(join(tmpdir(), 'segue-wrong-mapping-'));

  constructor(exchanges: readonly Exchange[]) {
    cpSync(MODEL_DIR, this.dir, { recursive: true });
    const path = join(this.dir, 'manifest.json');
    const manifest = JSON.parse(readFileSync(path, 'utf8')) as Manifest;
    const contents = new Map<string, Buffer>();
    const contentOf = (file: string) => {
      const content = contents.get(file) ?? readFileSync(join(this.dir, file));
      contents.set(file, content);
      return content;
    };
    for (const { component, keys } of exchanges) {
      const [one, other] = keys.map((key) => mappedKey(manifest, component, key)) as [MappedKey, MappedKey];
      assert.deepEqual(one.shape, other.shape, `${keys.join(' and ')} have one shape`);
      for (const [index, place] of one.stored!.entries()) exchangeBytes(contentOf, place, other.stored![index]!);
    }
    for (const [file, content] of contents) {
      writeFileSync(join(this.dir, file), content);
      manifest.files[file] = { sha256: createHash('sha256').update(content).digest('hex'), bytes: statSync(join(this.dir, file)).size };
    }
    writeFileSync(path, JSON.stringify(manifest));
  }

  remove(): void {
    rmSync(this.dir, { recursive: true });
  }
}

function mappedKey(manifest: Manifest, component: string, source: string): MappedKey {
  const key = manifest.components[component]!.key_mapping.find((mapped) => mapped.source === source);
  assert.ok(key?.stored !== undefined, `${component} holds the values of ${source} as they are`);
  return key;
}

function exchangeBytes(contentOf: (file: string) => Buffer, a: Place, b: Place): void {
  const [first, second] = [contentOf(a.file).subarray(a.offset, a.offset + a.bytes), contentOf(b.file).subarray(b.offset, b.offset + b.bytes)];
  assert.equal(first.length, second.length);
  assert.ok(!first.equals(second), 'the values differ');
  const kept = Buffer.from(first);
  first.set(second);
  second.set(kept);
}
