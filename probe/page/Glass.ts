import { READ_HEIGHT, READ_WIDTH, readStamp } from '../barcode.ts';
import type { CapturedPicture } from '../samples.ts';
import type { Log } from './Log.ts';

type PictureSource = HTMLVideoElement | VideoFrame | ImageBitmap | OffscreenCanvas | HTMLCanvasElement;

const MAX_CAPTURE = 64;
/** Luma is compared on every fourth pixel of every fourth line: 1,792 points. */
const STRIDE = 4;

interface Capture {
  left: number;
  readonly pictures: CapturedPicture[];
  readonly resolve: (pictures: CapturedPicture[]) => void;
}

/**
 * Logs every picture that is painted: `drawImage` of a picture onto a canvas of the document, and frames that visible
 * `<video>` elements present. Not seen: WebGL, `putImageData`, and canvases handed to a worker.
 */
export class Glass {
  readonly #log: Log;
  readonly #reader: CanvasRenderingContext2D;
  readonly #drawImage = CanvasRenderingContext2D.prototype.drawImage;
  readonly #request = HTMLVideoElement.prototype.requestVideoFrameCallback;
  /** RTP timestamp of the frame that each video element shows, kept by its frame callbacks. */
  readonly #shown = new WeakMap<HTMLVideoElement, number>();
  readonly #watched = new WeakSet<HTMLVideoElement>();
  readonly #captures = new Set<Capture>();
  #luma: Uint8Array | null = null;
  #last: { readonly t: number; readonly stamp: CapturedPicture['stamp']; readonly rgba: Uint8ClampedArray } | null = null;

  constructor(log: Log) {
    this.#log = log;
    const canvas = document.createElement('canvas');
    canvas.width = READ_WIDTH;
    canvas.height = READ_HEIGHT;
    this.#reader = canvas.getContext('2d', { willReadFrequently: true, alpha: false })!;
  }

  install(): void {
    const glass = this; // eslint-disable-line @typescript-eslint/no-this-alias -- the wrappers have a `this` of their own
    const drawImage = this.#drawImage;
    CanvasRenderingContext2D.prototype.drawImage = function (this: CanvasRenderingContext2D, ...args: unknown[]): void {
      Reflect.apply(drawImage, this, args);
      const source = args[0];
      if (isPicture(source) && isVisible(this.canvas)) glass.#paintedByCanvas(source);
    } as typeof drawImage;

    const request = this.#request;
    HTMLVideoElement.prototype.requestVideoFrameCallback = function (callback) {
      return Reflect.apply(request, this, [
        (now: DOMHighResTimeStamp, metadata: VideoFrameCallbackMetadata) => {
          glass.#note(this, metadata);
          callback(now, metadata);
        },
      ]);
    };

    const srcObject = Object.getOwnPropertyDescriptor(HTMLMediaElement.prototype, 'srcObject')!;
    Object.defineProperty(HTMLMediaElement.prototype, 'srcObject', {
      ...srcObject,
      set(this: HTMLMediaElement, value: MediaProvider | null) {
        srcObject.set!.call(this, value);
        if (this instanceof HTMLVideoElement) glass.#watch(this);
      },
    });
    // Elements that play from a URL, or came by innerHTML.
    document.addEventListener('loadeddata', (event) => event.target instanceof HTMLVideoElement && this.#watch(event.target), { capture: true });
  }

  grab(): CapturedPicture | null {
    return this.#last && { t: this.#last.t, stamp: this.#last.stamp, rgb: toBase64Rgb(this.#last.rgba) };
  }

  capture(count: number): Promise<CapturedPicture[]> {
    if (!(count >= 1 && count <= MAX_CAPTURE)) throw new TypeError(`capture takes 1 … ${MAX_CAPTURE} pictures, got ${count}`);
    return new Promise((resolve) => this.#captures.add({ left: count, pictures: [], resolve }));
  }

  #note(video: HTMLVideoElement, metadata: VideoFrameCallbackMetadata): void {
    this.#shown.set(video, metadata.rtpTimestamp ?? Math.round(metadata.mediaTime * 1e6));
  }

  #watch(video: HTMLVideoElement): void {
    if (this.#watched.has(video)) return;
    this.#watched.add(video);
    const next = (): void => {
      Reflect.apply(this.#request, video, [
        (_now: DOMHighResTimeStamp, metadata: VideoFrameCallbackMetadata) => {
          this.#note(video, metadata);
          if (isVisible(video)) this.#painted('video', video, metadata.presentationTime, this.#shown.get(video) ?? null);
          next();
        },
      ]);
    };
    next();
  }

  #paintedByCanvas(source: PictureSource): void {
    const key = source instanceof HTMLVideoElement ? (this.#shown.get(source) ?? null) : 'timestamp' in source ? keyOf(source) : null;
    this.#painted('canvas', source, performance.now(), key);
  }

  #painted(surface: 'canvas' | 'video', source: PictureSource, t: number, key: number | null): void {
    const { width, height } = sizeOf(source);
    if (width === 0 || height === 0) return;
    Reflect.apply(this.#drawImage, this.#reader, [source, 0, 0, READ_WIDTH, READ_HEIGHT]);
    const rgba = this.#reader.getImageData(0, 0, READ_WIDTH, READ_HEIGHT).data;
    const stamp = readStamp(rgba, width);
    this.#log.add({ kind: 'painted', t, surface, stamp, key, change: this.#change(rgba), width, height });
    this.#last = { t, stamp, rgba };
    for (const capture of this.#captures) {
      capture.pictures.push({ t, stamp, rgb: toBase64Rgb(rgba) });
      if (--capture.left > 0) continue;
      this.#captures.delete(capture);
      capture.resolve(capture.pictures);
    }
  }

  #change(rgba: Uint8ClampedArray): number | null {
    const before = this.#luma;
    const luma = new Uint8Array((READ_WIDTH / STRIDE) * (READ_HEIGHT / STRIDE));
    let at = 0;
    let sum = 0;
    for (let y = 0; y < READ_HEIGHT; y += STRIDE) {
      for (let x = 0; x < READ_WIDTH; x += STRIDE) {
        const pixel = (y * READ_WIDTH + x) * 4;
        luma[at] = (rgba[pixel]! * 77 + rgba[pixel + 1]! * 150 + rgba[pixel + 2]! * 29) >> 8;
        if (before !== null) sum += Math.abs(luma[at]! - before[at]!);
        at++;
      }
    }
    this.#luma = luma;
    return before === null ? null : Math.round((sum / at) * 100) / 100;
  }
}

/** The RTP timestamp, where the frame comes from a peer connection; else what its maker called its time. */
function keyOf(frame: VideoFrame): number {
  // Of the WebCodecs metadata registry; TypeScript's DOM library doesn't have it yet.
  const described = frame as VideoFrame & { metadata?(): { readonly rtpTimestamp?: number } };
  return described.metadata?.().rtpTimestamp ?? frame.timestamp;
}

function isPicture(source: unknown): source is PictureSource {
  return (
    source instanceof HTMLVideoElement ||
    (typeof VideoFrame !== 'undefined' && source instanceof VideoFrame) ||
    source instanceof ImageBitmap ||
    source instanceof OffscreenCanvas ||
    (source instanceof HTMLCanvasElement && !source.isConnected)
  );
}

function isVisible(element: Element): boolean {
  if (!element.isConnected || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return false;
  const box = element.getBoundingClientRect();
  return box.width >= 2 && box.height >= 2 && box.right > 0 && box.bottom > 0 && box.left < innerWidth && box.top < innerHeight;
}

function sizeOf(source: PictureSource): { width: number; height: number } {
  if (source instanceof HTMLVideoElement) return { width: source.videoWidth, height: source.videoHeight };
  if (typeof VideoFrame !== 'undefined' && source instanceof VideoFrame) return { width: source.displayWidth, height: source.displayHeight };
  return { width: (source as ImageBitmap).width, height: (source as ImageBitmap).height };
}

function toBase64Rgb(rgba: Uint8ClampedArray): string {
  const rgb = new Uint8Array((rgba.length / 4) * 3);
  for (let from = 0, to = 0; from < rgba.length; from += 4) {
    rgb[to++] = rgba[from]!;
    rgb[to++] = rgba[from + 1]!;
    rgb[to++] = rgba[from + 2]!;
  }
  let text = '';
  for (let at = 0; at < rgb.length; at += 0x8000) text += String.fromCharCode(...rgb.subarray(at, at + 0x8000));
  return btoa(text);
}
