import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { cells, EPOCHS, FRAMES, READ_HEIGHT, READ_WIDTH, readStamp, stampBits, toneHz, wrappedDistance, type Stamp } from '../../probe/barcode.ts';

const anyStamp = fc.record({ epoch: fc.nat(EPOCHS - 1), frame: fc.nat(FRAMES - 1) }, { noNullPrototype: true });

function picture(stamp: Stamp, noise: (at: number) => number): Uint8ClampedArray {
  const rgba = new Uint8ClampedArray(READ_WIDTH * READ_HEIGHT * 4).fill(128);
  const bits = stampBits(stamp);
  for (const [bit, cell] of cells(READ_WIDTH, READ_HEIGHT).entries()) {
    for (let y = cell.y; y < cell.y + cell.height; y++) {
      for (let x = cell.x; x < cell.x + cell.width; x++) {
        const at = (y * READ_WIDTH + x) * 4;
        rgba.fill((bits[bit] ? 235 : 16) + noise(at), at, at + 3);
      }
    }
  }
  return rgba;
}

describe('barcode', () => {
  it('reads back every stamp, through the noise that a codec leaves', () => {
    fc.assert(
      fc.property(anyStamp, fc.integer(), (stamp, seed) => {
        const noise = (at: number): number => (((at * 2654435761 + seed) >>> 8) % 61) - 30;
        assert.deepEqual(readStamp(picture(stamp, noise)), stamp);
      }),
      { numRuns: 60 },
    );
  });

  it('reads nothing from grey, black, white or a stamp with one flipped bit', () => {
    for (const level of [0, 128, 255]) assert.equal(readStamp(new Uint8ClampedArray(READ_WIDTH * READ_HEIGHT * 4).fill(level)), null);
    fc.assert(
      fc.property(anyStamp, fc.nat(31), (stamp, flipped) => {
        const rgba = picture(stamp, () => 0);
        const cell = cells(READ_WIDTH, READ_HEIGHT)[flipped]!;
        for (let y = cell.y; y < cell.y + cell.height; y++) {
          for (let x = cell.x; x < cell.x + cell.width; x++) {
            const at = (y * READ_WIDTH + x) * 4;
            rgba.fill(255 - rgba[at]!, at, at + 3);
          }
        }
        assert.equal(readStamp(rgba), null);
      }),
      { numRuns: 60 },
    );
  });

  it('gives 16 tones, a fifth of a kilohertz apart', () => {
    assert.deepEqual([0, 1, 15, 16, 1023].map(toneHz), [1000, 1200, 4000, 1000, 4000]);
  });

  it('measures distances across the wrap', () => {
    assert.equal(wrappedDistance(0, 1023, 1024), 1);
    assert.equal(wrappedDistance(1023, 0, 1024), -1);
    assert.equal(wrappedDistance(5, 5, 16), 0);
  });
});
