/** A camera on its way in: RTP packets to VP8 frames, frames to chunks of the model's pictures. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { VirtualClock } from '../../src/observe/virtual_clock.ts';
import { loadNative } from '../../src/media/native.ts';
import { VideoIntake, type VideoIntakeDeps } from '../../src/media/VideoIntake.ts';
import { Vp8Assembly } from '../../src/media/Vp8Assembly.ts';
import { vp8Payloads } from '../../src/media/vp8_payload.ts';
import { FORMAT, SessionRig } from './session_rig.ts';

const WORLD = { width: 224, height: 128, framesPerSecond: 12, audioSampleRate: 24_000 };

/** A camera's pictures: left half of one colour, right half of another. */
async function camera(width: number, height: number, frames: number): Promise<Uint8Array[]> {
  const encoder = new (loadNative().VpxEncoder)({ width, height, framesPerSecond: 30, bitrate: 2_000_000 });
  const rgb = new Uint8Array(width * height * 3);
  for (let at = 0; at < width * height; at++) rgb.set(at % width < width / 2 ? [220, 30, 30] : [30, 30, 220], at * 3);
  const encoded: Uint8Array[] = [];
  for (let frame = 0; frame < frames; frame++) encoded.push((await encoder.encode(rgb, { format: 'rgb24', keyframe: frame === 0 })).data);
  encoder.close();
  return encoded;
}

class Rig {
  readonly clock = new VirtualClock();
  readonly chunks: (readonly SharedArrayBuffer[])[] = [];
  readonly faults: string[] = [];
  keyframesAsked = 0;
  readonly intake: VideoIntake;

  constructor(decoder: VideoIntakeDeps['decoder'] = new (loadNative().VpxDecoder)()) {
    this.intake = new VideoIntake({ clock: this.clock, decoder, format: WORLD, framesPerChunk: 2, chunk: (frames) => this.chunks.push(frames), keyframeNeeded: () => this.keyframesAsked++, failed: (message) => this.faults.push(message) });
  }

  /** Pushes at a camera's rate, each decoded before the next comes. */
  async play(frames: readonly (Uint8Array | null)[], perSecond = 30): Promise<void> {
    for (const frame of frames) {
      this.intake.push(frame);
      await new Promise((resolve) => setTimeout(resolve, 8));
      await this.clock.advanceTo(this.clock.now() + 1000 / perSecond);
    }
  }
}

describe('video that comes in', () => {
  it('is scaled to cover the model’s size, cut at the sides, and thinned out to its rate', async () => {
    for (const [width, height] of [[640, 480], [320, 180], [180, 320]] as const) {
      const rig = new Rig();
      const frames = await camera(width, height, 60);
      await rig.play(frames);
      assert.ok(rig.chunks.length >= 11 && rig.chunks.length <= 13, `${rig.chunks.length} chunks of two in 2 s from ${width}×${height}`);
      const picture = new Uint8Array(rig.chunks[0]![0]!);
      assert.equal(picture.length, 224 * 128 * 3);
      const [left, right] = [picture.subarray((64 * 224 + 20) * 3, (64 * 224 + 20) * 3 + 3), picture.subarray((64 * 224 + 204) * 3, (64 * 224 + 204) * 3 + 3)];
      assert.ok(left[0]! > 170 && left[2]! < 90 && right[2]! > 170 && right[0]! < 90, `${left} ${right}`);
      rig.intake.close();
    }
  });

  it('slower than the model it is taken as it comes', async () => {
    const rig = new Rig();
    await rig.play(await camera(224, 128, 16), 8);
    assert.equal(rig.chunks.length, 8);
    rig.intake.close();
  });

  it('a lost or damaged frame costs what refers to it: nothing is taken before the next keyframe, which is asked for twice a second', async () => {
    const frames = await camera(224, 128, 20);
    const rig = new Rig();
    await rig.play([...frames.slice(0, 4), null, ...frames.slice(5)], 12);
    assert.equal(rig.chunks.length, 2);
    assert.ok(rig.keyframesAsked >= 2 && rig.keyframesAsked <= 4, `${rig.keyframesAsked} in 1.3 s`);
    await rig.play(frames.slice(0, 2), 12);
    assert.equal(rig.chunks.length, 3);
    const damaged = Uint8Array.from(frames[0]!).fill(0xff, 12);
    await rig.play([damaged.subarray(0, 14), ...frames.slice(1, 6)], 12);
    await rig.play(frames.slice(0, 4), 12);
    assert.ok(rig.chunks.length >= 4, 'and it goes on');
    rig.intake.close();
  });

  it('a picture that claims to be huge is refused by its header', async () => {
    const rig = new Rig();
    const [key] = await camera(224, 128, 1);
    const huge = Uint8Array.from(key!);
    huge[6] = huge[8] = 0xff;
    huge[7] = huge[9] = 0x3f;
    await rig.play([huge]);
    assert.match(rig.faults.join(), /at most 2088960 pixels/);
    assert.equal(rig.chunks.length, 0);
    rig.intake.close();
  });

  it('frames that wait too long are dropped whole, and pictures are never piled up', async () => {
    const decoding: (() => void)[] = [];
    let closed = 0;
    const rig = new Rig({ decode: () => new Promise((resolve) => decoding.push(() => resolve({ width: 224, height: 128, data: new Uint8Array(224 * 128 * 3) }))), close: () => closed++ });
    const frames = await camera(224, 128, 20);
    for (const frame of frames) rig.intake.push(frame);
    assert.equal(decoding.length, 1, 'one at a time');
    assert.equal(rig.intake.dropped, 19, 'all but the one in work');
    assert.equal(rig.keyframesAsked, 1);
    rig.intake.close();
    rig.intake.close();
    assert.equal(closed, 0, 'not while it decodes');
    decoding[0]!();
    await new Promise((resolve) => setTimeout(resolve, 1));
    assert.equal(closed, 1);
    rig.intake.push(frames[0]!);
    assert.equal(rig.chunks.length, 0);
  });

  it('pictures lie in a ring of shared buffers, however long it goes on', async () => {
    const rig = new Rig({ decode: () => Promise.resolve({ width: 224, height: 128, data: new Uint8Array(224 * 128 * 3) }), close: () => undefined });
    const [key] = await camera(224, 128, 1);
    for (let frame = 0; frame < 200; frame++) {
      rig.intake.push(key!);
      await rig.clock.advanceTo(rig.clock.now() + 1000 / 12);
    }
    assert.ok(rig.chunks.length > 90);
    assert.equal(new Set(rig.chunks.flat()).size, 32);
    rig.intake.close();
  });
});

describe('VP8 over RTP', () => {
  const frames = [1, 2, 3].map((fill) => new Uint8Array(3000).fill(fill));
  const packets = frames.flatMap((frame, at) => vp8Payloads(frame, at).map((payload, part, all) => ({ timestamp: at * 3000, marker: part === all.length - 1, payload }))).map((packet, sequence) => ({ sequence: (65_533 + sequence) & 0xffff, ...packet }));
  const assembled = (order: readonly number[]): (number | null)[] => {
    const out: (number | null)[] = [];
    const assembly = new Vp8Assembly((frame) => out.push(frame === null ? null : frame.length === 3000 && new Set(frame).size === 1 ? frame[0]! : -1));
    for (const at of order) {
      const { sequence, timestamp, marker, payload } = packets[at]!;
      assembly.packet(sequence, timestamp, marker, payload);
    }
    return out;
  };
  const all = packets.map((_, at) => at);

  it('puts frames together, over the end of the sequence numbers', () => assert.deepEqual(assembled(all), [1, 2, 3]));

  it('a packet that is missing costs its frame, and the next is whole', () => {
    for (const missing of [3, 4, 5]) {
      const out = assembled(all.filter((at) => at !== missing));
      assert.deepEqual([out[0], out.at(-1)], [1, 3], `without ${missing}: ${out}`);
      assert.ok(out.includes(null) && !out.includes(2) && !out.includes(-1));
    }
  });

  it('repeats and late packets change nothing', () => {
    assert.deepEqual(assembled([0, 1, 1, 2, 2, ...all.slice(3), 4]), [1, 2, 3]);
  });
});

describe('a session’s camera', () => {
  it('only a driver’s is taken in; another driver’s begins with a keyframe of its own', async () => {
    const none = new SessionRig();
    none.connect();
    none.session.see('c', new Uint8Array(10));
    assert.equal(none.session.takesVideo, false);
    const rig = new SessionRig({ incoming: new (loadNative().VpxDecoder)() });
    assert.equal(rig.session.takesVideo, true);
    const [a, watcher, b] = [rig.connect('a'), rig.connect('w', false), rig.connect('b')];
    const frames = await camera(64, 128, 6);
    const play = async (from: string): Promise<void> => {
      for (const frame of frames) {
        rig.session.see(from, frame);
        await new Promise((resolve) => setTimeout(resolve, 8));
        await rig.clock.advanceTo(rig.clock.now() + 1000 / FORMAT.framesPerSecond);
      }
    };
    const chunks = (): number => rig.toEngine.filter(({ type }) => type === 'media.frames').length;
    await play('w');
    assert.equal(chunks(), 0);
    await play('a');
    assert.equal(chunks(), 3);
    rig.session.see('b', frames[3]!);
    assert.deepEqual([a.keyframesAsked, watcher.keyframesAsked, b.keyframesAsked], [0, 0, 1]);
    await play('b');
    assert.equal(chunks(), 6);
    await rig.session.close();
    rig.session.see('b', frames[0]!);
  });
});
