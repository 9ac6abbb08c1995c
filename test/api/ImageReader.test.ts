import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import sharp from 'sharp';
import { ImageReader } from '../../src/api/ImageReader.ts';
import { MAX_IMAGE_BYTES } from '../../src/protocol/session_image.ts';

const SIZE = { width: 224, height: 128 };
const TYPES = ['png', 'jpeg', 'webp'] as const;

/** A red left third, a green middle and a blue right third. */
function striped(width: number, height: number): ReturnType<typeof sharp> {
  const third = (background: string, left: number) => ({ input: { create: { width: Math.ceil(width / 3), height, channels: 3 as const, background } }, left, top: 0 });
  return sharp({ create: { width, height, channels: 3, background: '#0000ff' } }).composite([third('#ff0000', 0), third('#00ff00', Math.floor(width / 3))]);
}

function pixel(rgb: SharedArrayBuffer, x: number, y: number): number[] {
  return [...new Uint8Array(rgb).slice((y * SIZE.width + x) * 3, (y * SIZE.width + x) * 3 + 3)];
}

function near(actual: readonly number[], expected: readonly number[], tolerance = 12): void {
  for (const [index, value] of actual.entries()) assert.ok(Math.abs(value - expected[index]!) <= tolerance, `${actual} is not ${expected}`);
}

const image = (bytes: Buffer, mimeType = 'image/png') => ({ mimeType, data: bytes.toString('base64') });

describe('the picture of a call', () => {
  const reader = new ImageReader(SIZE);
  let png: Buffer;
  before(async () => {
    png = await striped(448, 256).png().toBuffer();
  });

  it('is read in each type, in the size of the model', async () => {
    for (const type of TYPES) {
      const rgb = await reader.read(image(await striped(448, 256).toFormat(type, { quality: 95 }).toBuffer(), `image/${type}`));
      assert.equal(rgb.byteLength, 224 * 128 * 3);
      near(pixel(rgb, 20, 64), [255, 0, 0]);
      near(pixel(rgb, 112, 64), [0, 255, 0]);
      near(pixel(rgb, 203, 64), [0, 0, 255]);
    }
  });

  it('covers the frame: a wide one loses its sides, a high one its top and bottom', async () => {
    const wide = await reader.read(image(await striped(2000, 128).png().toBuffer()));
    near(pixel(wide, 3, 64), [0, 255, 0]);
    near(pixel(wide, 220, 64), [0, 255, 0]);
    const high = await reader.read(image(await striped(224, 2000).png().toBuffer()));
    near(pixel(high, 20, 2), [255, 0, 0]);
    near(pixel(high, 203, 125), [0, 0, 255]);
  });

  it('is turned as its EXIF says, and put on white where it is transparent; a grey one has three channels', async () => {
    const turned = await reader.read(image(await striped(448, 256).withMetadata({ orientation: 3 }).jpeg({ quality: 95 }).toBuffer(), 'image/jpeg'));
    near(pixel(turned, 20, 64), [0, 0, 255]);
    const clear = await sharp({ create: { width: 30, height: 30, channels: 4, background: { r: 0, g: 0, b: 0, alpha: 0 } } }).png().toBuffer();
    assert.deepEqual(pixel(await reader.read(image(clear)), 112, 64), [255, 255, 255]);
    const grey = await sharp({ create: { width: 30, height: 30, channels: 3, background: '#777777' } }).greyscale().png().toBuffer();
    near(pixel(await reader.read(image(grey)), 112, 64), [119, 119, 119]);
    const deep = await sharp({ create: { width: 30, height: 30, channels: 3, background: '#204060' } }).toColourspace('rgb16').png().toBuffer();
    near(pixel(await reader.read(image(deep)), 112, 64), [32, 64, 96]);
  });

  it('is refused by name where it can’t be used', async () => {
    const large = Buffer.alloc(MAX_IMAGE_BYTES + 1);
    const frames = Buffer.concat([await striped(30, 20).raw().toBuffer(), await striped(30, 20).negate().raw().toBuffer()]);
    const animatedWebp = await sharp(frames, { raw: { width: 30, height: 40, channels: 3, pageHeight: 20 } }).webp({ loop: 0, delay: [100, 100] }).toBuffer();
    assert.equal((await sharp(animatedWebp).metadata()).pages, 2);
    const control = Buffer.from([0, 0, 0, 8, ...Buffer.from('acTL'), 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    const animatedPng = Buffer.concat([png.subarray(0, 33), control, png.subarray(33)]);
    const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"/>');
    const cases: readonly (readonly [name: string, picture: { mimeType: string; data: string }, code: string, param: string])[] = [
      ['another type', image(png, 'image/gif'), 'unsupported_media_type', 'image.mimeType'],
      ['a drawing', image(svg, 'image/svg+xml'), 'unsupported_media_type', 'image.mimeType'],
      ['a drawing said to be a PNG', image(svg), 'bad_image', 'image.data'],
      ['not what it is said to be', image(png, 'image/jpeg'), 'bad_image', 'image.mimeType'],
      ['not base64', { mimeType: 'image/png', data: 'data:image/png;base64,AAAA' }, 'bad_image', 'image.data'],
      ['no picture', image(Buffer.from('hello, world')), 'bad_image', 'image.data'],
      ['cut short', image(png.subarray(0, png.length / 2)), 'bad_image', 'image.data'],
      ['one byte', image(Buffer.from([1])), 'bad_image', 'image.data'],
      ['an animated WebP', image(animatedWebp, 'image/webp'), 'unsupported_media_type', 'image.data'],
      ['an animated PNG', image(animatedPng), 'unsupported_media_type', 'image.data'],
      ['too many bytes', image(large), 'payload_too_large', 'image.data'],
      ['too many pixels', image(await sharp({ create: { width: 4100, height: 4100, channels: 3, background: '#000' } }).png({ compressionLevel: 9 }).toBuffer()), 'payload_too_large', 'image.data'],
    ];
    for (const [name, picture, code, param] of cases) {
      await assert.rejects(reader.read(picture), (error: { code?: string; details?: { param?: string } }) => {
        assert.deepEqual([name, error.code, error.details?.param], [name, code, param], String(error));
        return true;
      });
    }
  });

  it('waits its turn; more than fit in the line are refused, and those in it are read', async () => {
    const answers = await Promise.allSettled(Array.from({ length: 14 }, () => reader.read(image(png))));
    const refused = answers.filter((answer) => answer.status === 'rejected');
    assert.equal(refused.length, 4);
    for (const { reason } of refused) assert.equal((reason as { code: string }).code, 'rate_limited');
    assert.equal((await reader.read(image(png))).byteLength, 224 * 128 * 3, 'and the line is free again');
  });
});
