import { PICTURE_HEIGHT, PICTURE_WIDTH } from '../oracle/Classifier.ts';

/** Rows around the horizon: far enough that everything in them turns together when the road does. */
const FIRST_ROW = 30;
const LAST_ROW = 58;
const MAX_SHIFT = 10;

/**
 * How far the horizon moved to the right between two pictures, in pixels of 224 (whole numbers): the shift at which the pictures' vertical
 * structure around the horizon fits best. Negative while the view turns right.
 *
 * @param before RGB, 224 × 128 × 3 bytes
 */
export function horizontalShift(before: Uint8Array, after: Uint8Array): number {
  const a = verticalEdges(before);
  const b = verticalEdges(after);
  let best = 0;
  let bestScore = -Infinity;
  for (let shift = -MAX_SHIFT; shift <= MAX_SHIFT; shift++) {
    let product = 0;
    let left = 0;
    let right = 0;
    for (let row = 0; row < LAST_ROW - FIRST_ROW; row++) {
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

/** Differences in green from column to column: flat sky and ground say nothing about a shift. */
function verticalEdges(rgb: Uint8Array): Float32Array {
  if (rgb.length !== PICTURE_WIDTH * PICTURE_HEIGHT * 3) throw new TypeError(`a picture is ${PICTURE_WIDTH * PICTURE_HEIGHT * 3} bytes, got ${rgb.length}`);
  const edges = new Float32Array((LAST_ROW - FIRST_ROW) * PICTURE_WIDTH);
  for (let row = FIRST_ROW; row < LAST_ROW; row++) {
    for (let x = 1; x < PICTURE_WIDTH - 1; x++) {
      const at = (row * PICTURE_WIDTH + x) * 3 + 1;
      edges[(row - FIRST_ROW) * PICTURE_WIDTH + x] = rgb[at + 3]! - rgb[at - 3]!;
    }
  }
  return edges;
}
