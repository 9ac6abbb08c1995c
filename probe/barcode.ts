/**
 * The stamp that a server under test writes into the raw picture, and the tone it puts into the sound, before they are encoded.
 * Layout and units: README.md, "What the server stamps". Shared by the page's reader, the self-test's writer and anyone's server.
 */

export const COLUMNS = 16;
export const ROWS = 2;
export const EPOCHS = 1024;
export const FRAMES = 65536;
export const TONES = 16;
/** Cell height as a share of the picture: 14 of 128 lines. */
export const CELL_HEIGHT_SHARE = 14 / 128;

/** The picture is scaled to this before it is read, so that one reader serves every size; a cell is then about 14 × 14. */
export const READ_WIDTH = 224;
export const READ_HEIGHT = 128;

/** A cell nearer than this to mid grey (of 0…255) is not a bit: video range, blocking and scaling stay well outside. */
const MIN_CONTRAST = 32;

export interface Stamp {
  /** 0 … 1023: the sender's epoch mod 1024. */
  readonly epoch: number;
  /** 0 … 65535: index of the picture in media time mod 65536. */
  readonly frame: number;
}

export function checksum({ epoch, frame }: Stamp): number {
  return (epoch * 31 + frame * 7 + 13) % 61;
}

/** 32 bits, most significant first: epoch 10, frame 16, checksum 6. */
export function stampBits(stamp: Stamp): boolean[] {
  const value = stamp.epoch * 2 ** 22 + stamp.frame * 2 ** 6 + checksum(stamp);
  return Array.from({ length: COLUMNS * ROWS }, (_, bit) => Math.floor(value / 2 ** (31 - bit)) % 2 === 1);
}

/** Hz of an epoch's tone. */
export function toneHz(epoch: number): number {
  return 1000 + 200 * (epoch % TONES);
}

/** Cells of a picture of `width × height` pixels, in the order of {@link stampBits}. */
export function cells(width: number, height: number): readonly { readonly x: number; readonly y: number; readonly width: number; readonly height: number }[] {
  const cellWidth = Math.floor(width / COLUMNS);
  const cellHeight = Math.round(height * CELL_HEIGHT_SHARE);
  return Array.from({ length: COLUMNS * ROWS }, (_, bit) => ({
    x: (bit % COLUMNS) * cellWidth,
    y: Math.floor(bit / COLUMNS) * cellHeight,
    width: cellWidth,
    height: cellHeight,
  }));
}

/**
 * Reads the stamp of a picture that was scaled to {@link READ_WIDTH} × {@link READ_HEIGHT}.
 *
 * @param rgba `READ_WIDTH × READ_HEIGHT × 4` bytes
 * @param sourceWidth width in pixels before scaling: it decides how wide a cell is
 * @returns null where there is no legible stamp (unstamped picture, torn or blurred cells, wrong checksum)
 */
export function readStamp(rgba: ArrayLike<number>, sourceWidth: number = READ_WIDTH): Stamp | null {
  const cellWidth = (Math.floor(sourceWidth / COLUMNS) / sourceWidth) * READ_WIDTH;
  const cellHeight = READ_HEIGHT * CELL_HEIGHT_SHARE;
  let value = 0;
  for (let bit = 0; bit < COLUMNS * ROWS; bit++) {
    const centreX = ((bit % COLUMNS) + 0.5) * cellWidth;
    const centreY = (Math.floor(bit / COLUMNS) + 0.5) * cellHeight;
    let sum = 0;
    let count = 0;
    for (let y = Math.round(centreY) - 3; y < Math.round(centreY) + 3; y++) {
      for (let x = Math.round(centreX) - 3; x < Math.round(centreX) + 3; x++) {
        sum += rgba[(y * READ_WIDTH + x) * 4 + 1] ?? 0;
        count++;
      }
    }
    const level = sum / count - 128;
    if (Math.abs(level) < MIN_CONTRAST) return null;
    value = value * 2 + (level > 0 ? 1 : 0);
  }
  const stamp = { epoch: Math.floor(value / 2 ** 22), frame: Math.floor(value / 2 ** 6) % FRAMES };
  return value % 64 === checksum(stamp) ? stamp : null;
}

/** Signed distance `a − b` of two counters that wrap at `modulus`. */
export function wrappedDistance(a: number, b: number, modulus: number): number {
  const difference = (((a - b) % modulus) + modulus) % modulus;
  return difference > modulus / 2 ? difference - modulus : difference;
}
