/**
 * Test mode: epoch and frame number as a barcode in the raw picture, and the epoch as a tone, both before the encoder.
 * Layout: 16 × 2 cells from the top-left corner, a cell ⌊width/16⌋ wide and 14 pixels high, white 220 and black 30;
 * 32 bits, most significant first, row by row: epoch mod 1024 (10), frame number mod 65,536 (16), checksum (6).
 * `probe/` decodes the same layout on the other side.
 */
export const STAMP_COLUMNS = 16;
export const STAMP_ROWS = 2;
export const STAMP_CELL_HEIGHT = 14;
const WHITE = 220;
const BLACK = 30;
const THRESHOLD = (WHITE + BLACK) / 2;

export interface Stamp {
  /** Modulo 1024. */
  readonly epoch: number;
  /** Start of the frame in frame durations, modulo 65,536. */
  readonly frame: number;
}

export function stampOf(epoch: number, start90k: number, frameDuration90k: number): Stamp {
  return { epoch: epoch % 1024, frame: Math.round(start90k / frameDuration90k) % 65_536 };
}

function checksum({ epoch, frame }: Stamp): number {
  return (epoch * 31 + frame * 7 + 13) % 61;
}

/** Draws into an RGB24 picture of `width × height × 3` bytes; needs width ≥ 16 and height ≥ 28. */
export function drawStamp(rgb: Uint8Array, width: number, stamp: Stamp): void {
  const cell = cellWidth(width);
  const word = stamp.epoch * 2 ** 22 + stamp.frame * 2 ** 6 + checksum(stamp);
  for (let bit = 0; bit < 32; bit++) {
    const value = Math.floor(word / 2 ** (31 - bit)) % 2 === 1 ? WHITE : BLACK;
    const left = (bit % STAMP_COLUMNS) * cell;
    const top = Math.floor(bit / STAMP_COLUMNS) * STAMP_CELL_HEIGHT;
    for (let y = top; y < top + STAMP_CELL_HEIGHT; y++) rgb.fill(value, (y * width + left) * 3, (y * width + left + cell) * 3);
  }
}

/**
 * Reads the barcode of a picture with `channels` bytes a pixel (1 luma, 3 RGB, 4 RGBA); the middle half of each cell is averaged
 * over its first up to three channels. Null where the checksum doesn't fit.
 */
export function readStamp(pixels: Uint8Array | Uint8ClampedArray, width: number, channels: 1 | 3 | 4): Stamp | null {
  const cell = cellWidth(width);
  let word = 0;
  for (let bit = 0; bit < 32; bit++) {
    const left = (bit % STAMP_COLUMNS) * cell;
    const top = Math.floor(bit / STAMP_COLUMNS) * STAMP_CELL_HEIGHT;
    word = word * 2 + (cellMean(pixels, width, channels, left, top, cell) > THRESHOLD ? 1 : 0);
  }
  const stamp = { epoch: Math.floor(word / 2 ** 22), frame: Math.floor(word / 2 ** 6) % 65_536 };
  return word % 64 === checksum(stamp) ? stamp : null;
}

function cellMean(pixels: Uint8Array | Uint8ClampedArray, width: number, channels: number, left: number, top: number, cell: number): number {
  const used = Math.min(channels, 3);
  let sum = 0;
  let count = 0;
  for (let y = top + (STAMP_CELL_HEIGHT >> 2); y < top + STAMP_CELL_HEIGHT - (STAMP_CELL_HEIGHT >> 2); y++) {
    for (let x = left + (cell >> 2); x < left + cell - (cell >> 2); x++) {
      for (let channel = 0; channel < used; channel++) sum += pixels[(y * width + x) * channels + channel]!;
      count += used;
    }
  }
  return sum / count;
}

function cellWidth(width: number): number {
  const cell = Math.floor(width / STAMP_COLUMNS);
  if (cell < 1) throw new TypeError(`a stamp needs a picture at least ${STAMP_COLUMNS} pixels wide, got ${width}`);
  return cell;
}

export const TONE_AMPLITUDE = 0.25;

export function toneHz(epoch: number): number {
  return 1000 + 200 * (epoch % 16);
}

/** The tone of an epoch, phase-continuous from packet to packet and across epochs. */
export class StampTone {
  readonly #sampleRate: number;
  #phase = 0;

  constructor(sampleRate: number) {
    this.#sampleRate = sampleRate;
  }

  /** Replaces `count` samples from `offset` on. */
  fill(samples: Int16Array, offset: number, count: number, epoch: number): void {
    const step = (2 * Math.PI * toneHz(epoch)) / this.#sampleRate;
    for (let i = 0; i < count; i++) {
      samples[offset + i] = Math.round(Math.sin(this.#phase) * TONE_AMPLITUDE * 32_767);
      this.#phase = (this.#phase + step) % (2 * Math.PI);
    }
  }
}
