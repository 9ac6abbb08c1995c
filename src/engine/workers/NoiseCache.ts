import { Tensor } from 'onnxruntime-node';
import { fillNormal, fillUniform } from '../model/philox.ts';
import type { UnitInput } from '../model/work.ts';

type NoiseInput = Extract<UnitInput, { readonly kind: 'noise' }>;

/**
 * Recent draws. A chunk reads the same noise at each of its steps, so drawing it once saves a few percent of every step but the first.
 * The oldest draw falls out: it can always be drawn again, bit for bit.
 */
export class NoiseCache {
  readonly #draws = new Map<string, Tensor>();
  readonly #capacity: number;

  constructor(capacity = 64) {
    this.#capacity = capacity;
  }

  /** Samples with a batch axis of 1. */
  draw({ counter, distribution, shape }: NoiseInput): Tensor {
    const key = `${distribution}/${counter.seed}/${counter.lineage}/${counter.chunk}/${counter.step}/${counter.stream}/${shape.join('x')}`;
    let tensor = this.#draws.get(key);
    if (tensor === undefined) {
      const samples = new Float32Array(shape.reduce((product, axis) => product * axis, 1));
      (distribution === 'normal' ? fillNormal : fillUniform)(counter, samples);
      tensor = new Tensor('float32', samples, [1, ...shape]);
    } else {
      this.#draws.delete(key);
    }
    this.#draws.set(key, tensor);
    if (this.#draws.size > this.#capacity) this.#draws.delete(this.#draws.keys().next().value!);
    return tensor;
  }
}
