const CELL = 4;
const LEVELS = 4;
const WINDOW = 7;

/** A small luma picture. */
export interface Thumbnail {
  readonly width: number;
  readonly height: number;
  readonly luma: Uint8Array;
}

/** Luma (Rec. 601, in whole numbers) of a picture, each cell of 4 × 4 pixels as its mean. `rgb` is row by row. */
export function thumbnailOf(rgb: ArrayLike<number>, width: number, height: number): Thumbnail {
  const small = { width: width / CELL, height: height / CELL };
  const sums = new Uint32Array(small.width * small.height);
  for (let pixel = 0; pixel < width * height; pixel++) {
    const cell = Math.floor(Math.floor(pixel / width) / CELL) * small.width + Math.floor((pixel % width) / CELL);
    sums[cell]! += (77 * rgb[3 * pixel]! + 150 * rgb[3 * pixel + 1]! + 29 * rgb[3 * pixel + 2]!) >> 8;
  }
  return { ...small, luma: Uint8Array.from(sums, (sum) => Math.floor(sum / CELL ** 2)) };
}

/**
 * Mean structural similarity (Wang, Bovik, Sheikh and Simoncelli, 2004) over all windows of 7 × 7 that lie inside, with sample variances: what
 * `skimage.metrics.structural_similarity` gives by default.
 */
export function structuralSimilarity(a: Thumbnail, b: Thumbnail): number {
  const [steadyMean, steadySpread] = [(0.01 * 255) ** 2, (0.03 * 255) ** 2];
  const count = WINDOW ** 2;
  let total = 0;
  for (let top = 0; top + WINDOW <= a.height; top++) {
    for (let left = 0; left + WINDOW <= a.width; left++) {
      let [sumA, sumB, squareA, squareB, product] = [0, 0, 0, 0, 0];
      for (let at = 0; at < count; at++) {
        const pixel = (top + Math.floor(at / WINDOW)) * a.width + left + (at % WINDOW);
        const [x, y] = [a.luma[pixel]!, b.luma[pixel]!];
        sumA += x;
        sumB += y;
        squareA += x * x;
        squareB += y * y;
        product += x * y;
      }
      const [meanA, meanB] = [sumA / count, sumB / count];
      const unbiased = count / (count - 1);
      const [varianceA, varianceB] = [unbiased * (squareA / count - meanA ** 2), unbiased * (squareB / count - meanB ** 2)];
      const covariance = unbiased * (product / count - meanA * meanB);
      total += ((2 * meanA * meanB + steadyMean) * (2 * covariance + steadySpread)) / ((meanA ** 2 + meanB ** 2 + steadyMean) * (varianceA + varianceB + steadySpread));
    }
  }
  return total / ((a.height - WINDOW + 1) * (a.width - WINDOW + 1));
}

/** Adds a picture's pixels to counts of 64 joint bins of red, green and blue. */
export function countColours(rgb: ArrayLike<number>, counts: Float64Array): void {
  const level = (value: number) => Math.floor((value * LEVELS) / 256);
  for (let at = 0; at < rgb.length; at += 3) counts[(level(rgb[at]!) * LEVELS + level(rgb[at + 1]!)) * LEVELS + level(rgb[at + 2]!)]!++;
}

/** Shared part of two distributions of colours (Swain and Ballard, 1991): 1 where they are the same. The first is given as counts. */
export function colourIntersection(counts: Float64Array, shares: readonly number[]): number {
  const sum = counts.reduce((total, count) => total + count, 0);
  return shares.reduce((total, share, bin) => total + Math.min(share, counts[bin]! / sum), 0);
}
