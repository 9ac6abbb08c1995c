import sharp from 'sharp';
import { SegueError } from '../protocol/errors.ts';
import { IMAGE_TYPES, MAX_IMAGE_BYTES, MAX_IMAGE_PIXELS, type SessionImage } from '../protocol/session_image.ts';

/** Decoders that run at once; each is one thread of the pool, for tens of milliseconds. */
const MAX_RUNNING = 2;
/** Pictures that wait for one; more are refused. */
const MAX_WAITING = 8;
const WATCHDOG_SECONDS = 5;
const RETRY_MS = 500;

const FORMATS: Readonly<Record<(typeof IMAGE_TYPES)[number], string>> = { 'image/png': 'png', 'image/jpeg': 'jpeg', 'image/webp': 'webp' };

// Only what the API takes may be decoded at all, whatever the bytes claim to be.
sharp.block({ operation: ['VipsForeignLoad'] });
sharp.unblock({ operation: ['VipsForeignLoadPngBuffer', 'VipsForeignLoadJpegBuffer', 'VipsForeignLoadWebpBuffer'] });
sharp.cache(false);
sharp.concurrency(1);

/** Turns the picture of a call into the pixels that a model starts from. Decoding runs on the thread pool: the event loop only hands over. */
export class ImageReader {
  readonly #width: number;
  readonly #height: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor({ width, height }: { readonly width: number; readonly height: number }) {
    this.#width = width;
    this.#height = height;
  }

  /**
   * RGB, row by row, in shared memory: turned as its EXIF says, in sRGB, on white where it is transparent, scaled and cropped around
   * its middle to cover the whole frame.
   * @throws {SegueError} unsupported_media_type (another type, animated), payload_too_large (bytes or pixels), bad_image (not base64, broken,
   * not what it is said to be), rate_limited (too many at once), timed_out
   */
  async read(image: SessionImage): Promise<SharedArrayBuffer> {
    const bytes = bytesOf(image);
    if (isAnimatedPng(bytes)) throw animated();
    await this.#enter();
    try {
      return await this.#decode(bytes, image.mimeType);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }

  async #enter(): Promise<void> {
    if (this.#running < MAX_RUNNING) {
      this.#running += 1;
      return;
    }
    if (this.#waiting.length >= MAX_WAITING) throw new SegueError('rate_limited', 'too many pictures are being read', { retryAfterMs: RETRY_MS });
    // Whoever is done hands its place over.
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  async #decode(bytes: Buffer, mimeType: string): Promise<SharedArrayBuffer> {
    try {
      const source = sharp(bytes, { failOn: 'error', limitInputPixels: MAX_IMAGE_PIXELS, autoOrient: true });
      const { format, pages = 1, width, height } = await source.metadata();
      if (width * height > MAX_IMAGE_PIXELS) throw new SegueError('payload_too_large', `a picture has at most ${MAX_IMAGE_PIXELS} pixels`, { param: 'image.data' });
      if (format !== FORMATS[mimeType as keyof typeof FORMATS]) throw new SegueError('bad_image', `this is not ${mimeType} but ${format}`, { param: 'image.mimeType' });
      if (pages > 1) throw animated();
      const rgb = await source
        .resize(this.#width, this.#height, { fit: 'cover', position: 'centre' })
        .flatten({ background: '#ffffff' })
        .toColourspace('srgb')
        .raw({ depth: 'uchar' })
        .timeout({ seconds: WATCHDOG_SECONDS })
        .toBuffer();
      const expected = this.#width * this.#height * 3;
      if (rgb.length !== expected) throw new SegueError('bad_image', 'the picture has no colours that can be shown', { param: 'image.data' });
      const shared = new SharedArrayBuffer(expected);
      new Uint8Array(shared).set(rgb);
      return shared;
    } catch (error) {
      throw toImageError(error);
    }
  }
}

function bytesOf({ mimeType, data }: SessionImage): Buffer {
  if (!(IMAGE_TYPES as readonly string[]).includes(mimeType)) throw new SegueError('unsupported_media_type', `a picture is one of ${IMAGE_TYPES.join(', ')}`, { param: 'image.mimeType' });
  const characters = data.length - (data.endsWith('==') ? 2 : data.endsWith('=') ? 1 : 0);
  const expected = Math.floor((characters * 3) / 4);
  if (expected > MAX_IMAGE_BYTES) throw new SegueError('payload_too_large', `a picture has at most ${MAX_IMAGE_BYTES} bytes`, { param: 'image.data' });
  const bytes = Buffer.from(data, 'base64');
  if (bytes.length !== expected) throw new SegueError('bad_image', 'this is not base64 (without a data: prefix)', { param: 'image.data' });
  return bytes;
}

/** The decoder reads an animated PNG as its first frame and doesn't say so: its control chunk comes before the pixels. */
function isAnimatedPng(bytes: Buffer): boolean {
  const control = bytes.indexOf('acTL');
  return control >= 0 && bytes.readUInt32BE(0) === 0x89504e47 && control < bytes.indexOf('IDAT');
}

function animated(): SegueError {
  return new SegueError('unsupported_media_type', 'an animated picture can’t be started from', { param: 'image.data' });
}

/** The decoder tells by its words alone what is wrong. */
function toImageError(error: unknown): SegueError {
  if (error instanceof SegueError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  if (/pixel limit/i.test(reason)) return new SegueError('payload_too_large', `a picture has at most ${MAX_IMAGE_PIXELS} pixels`, { param: 'image.data', cause: error });
  if (/timeout/i.test(reason)) return new SegueError('timed_out', 'the picture took too long to read', { param: 'image.data', cause: error });
  return new SegueError('bad_image', 'the picture is broken, or of an unsupported kind', { param: 'image.data', cause: error });
}
