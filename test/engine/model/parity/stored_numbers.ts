import { readFileSync } from 'node:fs';
import { fillUniform } from '../../../../src/engine/model/philox.ts';

const FIXTURES = new URL('./fixtures/', import.meta.url);

/** A large output as `python/segue_drive/parity_fixtures.py` keeps it: some of its elements, and the mean and root mean square of all. */
export interface Described {
  readonly shape: readonly number[];
  readonly tolerance: number;
  /** Which elements: see {@link subsetOf}. */
  readonly seed: number;
  /** Offset and count among the level's numbers. */
  readonly at: readonly [number, number];
  readonly mean: number;
  readonly rms: number;
}

export function readFixture<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(name, FIXTURES), 'utf8')) as T;
}

export function fixturePath(name: string): string {
  return new URL(name, FIXTURES).pathname;
}

/** The numbers of one level, and the comparison with them. */
export class StoredNumbers {
  readonly #numbers: Float32Array;

  constructor(file: string) {
    const bytes = readFileSync(new URL(file, FIXTURES));
    this.#numbers = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
  }

  /**
   * Largest difference of the kept elements, the mean and the root mean square; infinite where the sizes differ or a value is no number.
   * Where no element differs by more than the tolerance, neither do the other two.
   */
  difference(values: ArrayLike<number>, { shape, seed, at: [offset, count], mean, rms }: Described): number {
    const size = shape.reduce((product, axis) => product * axis, 1);
    if (values.length !== size) return Infinity;
    let sum = 0;
    let squares = 0;
    for (let index = 0; index < size; index++) {
      sum += values[index]!;
      squares += values[index]! ** 2;
    }
    const subset = subsetOf(size, seed, count);
    const kept = subset.map((element, place) => Math.abs(values[element]! - this.#numbers[offset + place]!));
    const largest = Math.max(Math.abs(sum / size - mean), Math.abs(Math.sqrt(squares / size) - rms), ...kept);
    return Number.isNaN(largest) ? Infinity : largest;
  }
}

/** One seeded element of each of `count` equal parts. */
function subsetOf(size: number, seed: number, count: number): number[] {
  if (size === count) return Array.from({ length: size }, (_, index) => index);
  const drawn = new Float32Array(count);
  fillUniform({ seed, lineage: 0, chunk: 0, step: 0, stream: 0 }, drawn);
  const width = size / count;
  return Array.from(drawn, (share, part) => Math.floor(part * width) + Math.floor(share * Math.floor(width)));
}
