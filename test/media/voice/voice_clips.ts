import { readFileSync } from 'node:fs';
import { loadNative } from '../../../src/media/native.ts';

export const RATE = 16_000;

/** Samples of a clip in `clips/`: 16 bits, mono, 16 kHz. */
export function clip(name: 'speech' | 'huh' | 'world_coast' | 'world_forest'): Int16Array {
  const file = readFileSync(new URL(`./clips/${name}.wav`, import.meta.url));
  const data = file.indexOf('data', 12, 'latin1') + 8;
  return Int16Array.from({ length: (file.length - data) >> 1 }, (_, at) => file.readInt16LE(data + at * 2));
}

export function silence(ms: number): Int16Array {
  return new Int16Array((RATE * ms) / 1000);
}

/** A quiet room as a microphone hears it: noise of a thousandth of full scale. */
export function room(ms: number): Int16Array {
  let seed = 3;
  return silence(ms).map(() => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.round(32 * (seed / 2 ** 31 - 1));
  });
}

export function joined(...parts: readonly Int16Array[]): Int16Array {
  return Int16Array.from(parts.flatMap((part) => [...part]));
}

/** The burst of air that a cough begins with: noise with a sharp onset. Followed by the clip `huh`, its voiced part, it is a cough. */
export function burst(ms = 200): Int16Array {
  let seed = 7;
  let low = 0;
  return Int16Array.from({ length: (RATE * ms) / 1000 }, (_, at) => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    low += 0.35 * (seed / 2 ** 31 - 1 - low);
    const seconds = at / RATE;
    return 26_000 * Math.min(1, seconds / 0.008) * Math.exp(-seconds / 0.07) * low;
  });
}

export const cough = (): Int16Array => joined(burst(120), clip('huh'));

/** As a browser sends them: 20 ms each, at 48 kHz. */
export function opusPackets(samples: Int16Array): Uint8Array[] {
  const encoder = new (loadNative().OpusEncoder)({ sampleRate: 48_000, channels: 1, bitrate: 32_000 });
  const packets: Uint8Array[] = [];
  for (let from = 0; from + 320 <= samples.length; from += 320) {
    packets.push(encoder.encode(Int16Array.from({ length: 960 }, (_, at) => samples[from + Math.floor(at / 3)]!)));
  }
  encoder.close();
  return packets;
}

/** As a WebSocket client sends them: 32 ms each. */
export function samplePackets(samples: Int16Array): Uint8Array[] {
  const packets: Uint8Array[] = [];
  for (let from = 0; from < samples.length; from += 512) packets.push(new Uint8Array(samples.slice(from, from + 512).buffer));
  return packets;
}

/** A WAV file of samples, for a browser's fake microphone. */
export function wav(samples: Int16Array, rate = RATE): Buffer {
  const file = Buffer.alloc(44 + samples.length * 2);
  file.write('RIFF', 0, 'latin1');
  file.writeUInt32LE(36 + samples.length * 2, 4);
  file.write('WAVEfmt ', 8, 'latin1');
  file.writeUInt32LE(16, 16);
  file.writeUInt16LE(1, 20);
  file.writeUInt16LE(1, 22);
  file.writeUInt32LE(rate, 24);
  file.writeUInt32LE(rate * 2, 28);
  file.writeUInt16LE(2, 32);
  file.writeUInt16LE(16, 34);
  file.write('data', 36, 'latin1');
  file.writeUInt32LE(samples.length * 2, 40);
  samples.forEach((sample, at) => file.writeInt16LE(sample, 44 + at * 2));
  return file;
}
