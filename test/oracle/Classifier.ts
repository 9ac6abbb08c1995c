import { readFileSync } from 'node:fs';
import * as ort from 'onnxruntime-node';

export const PICTURE_WIDTH = 224;
export const PICTURE_HEIGHT = 128;

export type Attribute = 'place' | 'time' | 'weather';

/** What the classifier sees in one picture. */
export interface Reading extends Readonly<Record<Attribute, string>> {
  /** −1 full left … 1 full right. */
  readonly curve: number;
}

interface Report {
  readonly labels: Readonly<Record<Attribute, readonly string[]>>;
}

/**
 * Names place, time, weather and curve of the road in a picture: the judge of what the model generates. Fitted on rendered frames only;
 * its own errors are in `docs/model/classifier.md` and bound what a test can prove.
 */
export class Classifier {
  readonly labels: Report['labels'];
  readonly #session: ort.InferenceSession;

  private constructor(session: ort.InferenceSession, labels: Report['labels']) {
    this.#session = session;
    this.labels = labels;
  }

  static async load(): Promise<Classifier> {
    const { labels } = JSON.parse(readFileSync(new URL('./classifier.json', import.meta.url), 'utf8')) as Report;
    const graph = readFileSync(new URL('./classifier.onnx', import.meta.url));
    const session = await ort.InferenceSession.create(graph, { intraOpNumThreads: 1, executionProviders: ['cpu'] });
    return new Classifier(session, labels);
  }

  /** @param pictures RGB, 224 × 128 × 3 bytes each */
  async read(pictures: readonly Uint8Array[]): Promise<Reading[]> {
    if (pictures.length === 0) return [];
    const size = PICTURE_WIDTH * PICTURE_HEIGHT * 3;
    const rgb = new Uint8Array(pictures.length * size);
    for (const [at, picture] of pictures.entries()) {
      if (picture.length !== size) throw new TypeError(`a picture is ${size} bytes, got ${picture.length}`);
      rgb.set(picture, at * size);
    }
    const outputs = await this.#session.run({ rgb: new ort.Tensor('uint8', rgb, [pictures.length, PICTURE_HEIGHT, PICTURE_WIDTH, 3]) });
    const logits = (name: string): Float32Array => outputs[name]!.data as Float32Array;
    const name = (attribute: Attribute, row: number): string => {
      const labels = this.labels[attribute];
      const scores = logits(attribute).subarray(row * labels.length, (row + 1) * labels.length);
      return labels[scores.indexOf(Math.max(...scores))]!;
    };
    return pictures.map((_, row) => ({
      place: name('place', row),
      time: name('time', row),
      weather: name('weather', row),
      curve: logits('curve')[row]!,
    }));
  }
}

/** The value that most readings agree on, and the share that does. @throws TypeError without readings */
export function majority(readings: readonly Reading[], attribute: Attribute): { readonly value: string; readonly share: number } {
  if (readings.length === 0) throw new TypeError('no readings');
  const counts = new Map<string, number>();
  for (const reading of readings) counts.set(reading[attribute], (counts.get(reading[attribute]) ?? 0) + 1);
  const [value, count] = [...counts].reduce((best, entry) => (entry[1] > best[1] ? entry : best));
  return { value, share: count / readings.length };
}
