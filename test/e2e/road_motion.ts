import { PICTURE_HEIGHT, PICTURE_WIDTH } from '../oracle/Classifier.ts';

/** Rows where the road is far away: they move with the curve. */
const FAR: Band = { first: 60, last: 76 };
/** Rows right before the car: they hardly move, and take out whatever moves the whole picture. */
const NEAR: Band = { first: 98, last: 114 };
const MAX_SHIFT = 30;

interface Band {
  readonly first: number;
  readonly last: number;
}

/**
 * How far the distant road moved to the right of the near one between two moments, in pixels of 224: positive while the drive turns right.
 * Each moment is given by several pictures, so that lane marks and what stands by the road average out.
 *
 * @param before RGB pictures, 224 × 128 × 3 bytes each
 */
export function roadMotion(before: readonly Uint8Array[], after: readonly Uint8Array[]): number {
  return shiftOf(before, after, FAR) - shiftOf(before, after, NEAR);
}

/** The shift at which the vertical edges of the band fit best (normalised correlation). */
function shiftOf(before: readonly Uint8Array[], after: readonly Uint8Array[], band: Band): number {
  const a = verticalEdges(before, band);
  const b = verticalEdges(after, band);
  let best = 0;
  let bestScore = -Infinity;
  for (let shift = -MAX_SHIFT; shift <= MAX_SHIFT; shift++) {
    let product = 0;
    let left = 0;
    let right = 0;
    for (let row = 0; row < band.last - band.first; row++) {
      for (let x = MAX_SHIFT; x < PICTURE_WIDTH - MAX_SHIFT; x++) {
        const from = a[row * PICTURE_WIDTH + x]!;
        const to = b[row * PICTURE_WIDTH + x + shift]!;
        product += from * to;
        left += from * from;
        right += to * to;
      }
    }
    const score = product / Math.sqrt(left * right + 1e-9);
    if (score > bestScore) {
      bestScore = score;
      best = shift;
    }
  }
  return best;
}

/** Differences in green from column to column, summed over the pictures: flat ground says nothing about a shift. */
function verticalEdges(pictures: readonly Uint8Array[], { first, last }: Band): Float32Array {
  const edges = new Float32Array((last - first) * PICTURE_WIDTH);
  for (const rgb of pictures) {
    if (rgb.length !== PICTURE_WIDTH * PICTURE_HEIGHT * 3) throw new TypeError(`a picture is ${PICTURE_WIDTH * PICTURE_HEIGHT * 3} bytes, got ${rgb.length}`);
    for (let row = first; row < last; row++) {
      for (let x = 1; x < PICTURE_WIDTH - 1; x++) {
        const at = (row * PICTURE_WIDTH + x) * 3 + 1;
        edges[(row - first) * PICTURE_WIDTH + x]! += rgb[at + 3]! - rgb[at - 3]!;
      }
    }
  }
  return edges;
}
