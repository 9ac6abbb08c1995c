import type { Sample } from '../samples.ts';

/** At 100 sound blocks and 60 pictures a second: four minutes without a fetch. */
const CAPACITY = 40_000;

/** Bounded log of raw samples; drops the oldest and says how many. */
export class Log {
  #samples: Sample[] = [];
  #dropped = 0;

  add(sample: Sample): void {
    if (this.#samples.length >= CAPACITY) {
      this.#samples.splice(0, CAPACITY / 10);
      this.#dropped += CAPACITY / 10;
    }
    this.#samples.push(sample);
  }

  drain(): Sample[] {
    const samples = this.#samples;
    if (this.#dropped > 0) samples.unshift({ kind: 'dropped', t: performance.now(), count: this.#dropped });
    this.#samples = [];
    this.#dropped = 0;
    return samples;
  }
}
