import type { NoiseCounter } from './work.ts';

/**
 * Philox 4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
 * Noise is a pure function of its counter, so a replayed, re-placed or batched step draws the bits it drew the first time.
 *
 * Layout: key = (seed, lineage); counter = (index of the block of four words, chunk, step, stream).
 */
export function philox4x32(counter: readonly [number, number, number, number], key: readonly [number, number], out: Uint32Array): void {
  let [c0, c1, c2, c3] = counter;
  let [k0, k1] = key;
  for (let round = 0; round < ROUNDS; round++) {
    const high0 = mulHigh(M0, c0);
    const low0 = Math.imul(M0, c0);
    const high1 = mulHigh(M1, c2);
    const low1 = Math.imul(M1, c2);
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 = (k0 + W0) | 0;
    k1 = (k1 + W1) | 0;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/**
 * Fills `out` with independent standard normal samples (Box–Muller, in double, rounded once to float32).
 * `Math.log`, `Math.cos` and `Math.sin` are software routines in V8, so the bits don't depend on the machine.
 */
export function fillNormal(counter: NoiseCounter, out: Float32Array): void {
  eachBlock(counter, out.length, (words, at) => {
    for (let pair = 0; pair < 4; pair += 2) {
      const radius = Math.sqrt(-2 * Math.log((words[pair]! + 1) * TWO_POW_MINUS_32));
      const angle = words[pair + 1]! * (2 * Math.PI * TWO_POW_MINUS_32);
      // Writes past the end of a typed array are ignored, which trims the last block.
      out[at + pair] = radius * Math.cos(angle);
      out[at + pair + 1] = radius * Math.sin(angle);
    }
  });
}

/** Fills `out` with samples of [0, 1), each a multiple of 2⁻²⁴ so that float32 holds it exactly. */
export function fillUniform(counter: NoiseCounter, out: Float32Array): void {
  eachBlock(counter, out.length, (words, at) => {
    for (let lane = 0; lane < 4; lane++) out[at + lane] = (words[lane]! >>> 8) * 2 ** -24;
  });
}

function eachBlock(counter: NoiseCounter, length: number, visit: (words: Uint32Array, at: number) => void): void {
  const words = new Uint32Array(4);
  const key = [counter.seed | 0, counter.lineage | 0] as const;
  for (let at = 0, block = 0; at < length; at += 4, block++) {
    philox4x32([block, counter.chunk | 0, counter.step | 0, counter.stream | 0], key, words);
    visit(words, at);
  }
}

/** High 32 bits of the product of two unsigned 32-bit numbers, as a signed integer. */
function mulHigh(a: number, b: number): number {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const middle = aHigh * bLow + ((aLow * bLow) >>> 16);
  const cross = aLow * bHigh + (middle & 0xffff);
  return (aHigh * bHigh + Math.floor(middle / 0x10000) + Math.floor(cross / 0x10000)) | 0;
}

const ROUNDS = 10;
const M0 = 0xd2511f53;
const M1 = 0xcd9e8d57;
const W0 = 0x9e3779b9;
const W1 = 0xbb67ae85;
const TWO_POW_MINUS_32 = 2 ** -32;
