import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { loadNative } from '../../src/media/native.ts';
import { SegueError } from '../../src/protocol/errors.ts';

const codecs = loadNative();
const WIDTH = 224;
const HEIGHT = 128;

/** A picture with edges, gradients and colour that moves by `frame`. */
function picture(frame: number, into: Uint8Array = new Uint8Array(WIDTH * HEIGHT * 3)): Uint8Array {
  for (let y = 0; y < HEIGHT; y++) {
    for (let x = 0; x < WIDTH; x++) {
      const at = (y * WIDTH + x) * 3;
      into[at] = 128 + 100 * Math.sin((x + 2 * frame) / 17);
      into[at + 1] = 128 + 100 * Math.sin((y + frame) / 11);
      into[at + 2] = (x >> 4) % 2 === (y >> 4) % 2 ? 180 : 60;
    }
  }
  return into;
}

function psnr(a: Uint8Array, b: Uint8Array): number {
  let squares = 0;
  for (let i = 0; i < a.length; i++) squares += (a[i]! - b[i]!) ** 2;
  return 10 * Math.log10((255 ** 2 * a.length) / squares);
}

function encoder(options: { readonly bitrate?: number; readonly maxKeyframePercent?: number } = {}) {
  return new codecs.VpxEncoder({ width: WIDTH, height: HEIGHT, framesPerSecond: 12, bitrate: 1_000_000, ...options });
}

describe('VP8', () => {
  it('gives back the picture that was put in', async () => {
    const encode = encoder();
    const decode = new codecs.VpxDecoder();
    for (let frame = 0; frame < 24; frame++) {
      const source = picture(frame);
      const encoded = await encode.encode(source, { format: 'rgb24', keyframe: frame === 0 });
      assert.equal(encoded.keyframe, frame === 0);
      const decoded = await decode.decode(encoded.data, 'rgb24');
      assert.deepEqual([decoded.width, decoded.height], [WIDTH, HEIGHT]);
      // Colour is stored at half resolution, which costs the checkerboard its edges.
      assert.ok(psnr(source, decoded.data) > 24, `frame ${frame}: ${psnr(source, decoded.data).toFixed(1)} dB`);
    }
  });

  it('takes I420 as it is', async () => {
    const source = new Uint8Array((WIDTH * HEIGHT * 3) / 2).map((_, i) => (i < WIDTH * HEIGHT ? 40 + ((i % WIDTH) >> 1) : 128));
    const encoded = await encoder().encode(source, { format: 'i420', keyframe: true });
    const decoded = await new codecs.VpxDecoder().decode(encoded.data, 'i420');
    assert.ok(psnr(source, decoded.data) > 38);
  });

  it('reads pictures from shared memory', async () => {
    const shared = new Uint8Array(new SharedArrayBuffer(64 + WIDTH * HEIGHT * 3), 64);
    picture(5, shared);
    const encoded = await encoder().encode(shared, { format: 'rgb24', keyframe: true });
    const decoded = await new codecs.VpxDecoder().decode(encoded.data, 'rgb24');
    assert.ok(psnr(picture(5), decoded.data) > 24);
  });

  it('makes a keyframe where asked and nowhere else; a decoder can begin there', async () => {
    const encode = encoder();
    let decode = new codecs.VpxDecoder();
    for (let frame = 0; frame < 20; frame++) {
      const { keyframe, data } = await encode.encode(picture(frame), { format: 'rgb24', keyframe: frame === 0 || frame === 13 });
      assert.equal(keyframe, frame === 0 || frame === 13);
      if (frame === 13) decode = new codecs.VpxDecoder();
      await decode.decode(data, 'rgb24');
    }
    const delta = (await encode.encode(picture(30), { format: 'rgb24', keyframe: false })).data;
    await assert.rejects(new codecs.VpxDecoder().decode(delta, 'rgb24'));
  });

  it('follows the bitrate without a keyframe', async () => {
    const encode = encoder({ bitrate: 1_200_000 });
    const noise = picture(0);
    const rate = async (frames: number): Promise<number> => {
      let bytes = 0;
      for (let frame = 0; frame < frames; frame++) {
        for (let i = 0; i < noise.length; i++) noise[i] = (i * 7919 + frame * 104_729 + ((i * i) >> 3)) & 0xff;
        const encoded = await encode.encode(noise, { format: 'rgb24', keyframe: false });
        if (frame > 0) assert.equal(encoded.keyframe, false);
        bytes += encoded.data.length;
      }
      return (bytes * 8 * 12) / frames;
    };
    await rate(24);
    const high = await rate(24);
    encode.setBitrate(300_000);
    await rate(24);
    const low = await rate(24);
    assert.ok(low < high * 0.6, `${Math.round(high)} → ${Math.round(low)} bit/s`);
  });

  it('caps a keyframe when told to', async () => {
    const size = async (maxKeyframePercent: number): Promise<number> => {
      const encode = encoder({ bitrate: 400_000, maxKeyframePercent });
      await encode.encode(picture(0), { format: 'rgb24', keyframe: true });
      for (let frame = 1; frame < 12; frame++) await encode.encode(picture(frame), { format: 'rgb24', keyframe: false });
      return (await encode.encode(picture(12), { format: 'rgb24', keyframe: true })).data.length;
    };
    const [capped, free] = [await size(120), await size(0)];
    assert.ok(capped < free, `${capped} against ${free} bytes`);
  });

  it('keeps the order of calls and refuses what would wait too long', async () => {
    // Large enough that twelve calls are made before the first is done.
    const encode = new codecs.VpxEncoder({ width: 1280, height: 720, framesPerSecond: 12, bitrate: 1_000_000 });
    const pixels = new Uint8Array(1280 * 720 * 3).map((_, i) => i * 31);
    const results = await Promise.allSettled([...Array(12).keys()].map(async (call) => encode.encode(pixels, { format: 'rgb24', keyframe: call === 0 })));
    const refused = results.filter((result) => result.status === 'rejected');
    assert.ok(refused.length >= 4, `${refused.length} refused`);
    assert.match(String((refused[0] as PromiseRejectedResult).reason), /queue is full/);
    const decode = new codecs.VpxDecoder();
    for (const result of results) if (result.status === 'fulfilled') await decode.decode(result.value.data, 'rgb24');
  });

  it('names what is wrong with its arguments', async () => {
    assert.throws(() => new codecs.VpxEncoder({ width: 0, height: HEIGHT, framesPerSecond: 12, bitrate: 1e6 }), /TypeError: width must be an integer from 2 to 16383/);
    assert.throws(() => new codecs.VpxEncoder({ width: WIDTH, height: HEIGHT, framesPerSecond: 12 } as never), /bitrate/);
    const encode = encoder();
    assert.throws(() => encode.encode(new Uint8Array(10), { format: 'rgb24', keyframe: true }), RangeError);
    assert.throws(() => encode.encode(picture(0), { format: 'rgba' as never, keyframe: true }), TypeError);
    assert.throws(() => encode.encode('text' as never, { format: 'rgb24', keyframe: true }), TypeError);
    assert.throws(() => encode.setBitrate(Number.NaN), TypeError);
    await assert.rejects(new codecs.VpxDecoder().decode(new Uint8Array([1, 2, 3, 4]), 'rgb24'), /vp8 decoder/);
  });

  it('closes while a call runs: that call settles, later ones throw', async () => {
    const encode = encoder();
    const running = encode.encode(picture(0), { format: 'rgb24', keyframe: true });
    encode.close();
    encode.close();
    assert.equal((await running).keyframe, true);
    assert.throws(() => encode.encode(picture(1), { format: 'rgb24', keyframe: true }), /closed/);
  });
});

describe('Opus', () => {
  const tone = (hz: number, packet: number): Int16Array => Int16Array.from({ length: 480 }, (_, i) => 8000 * Math.sin((2 * Math.PI * hz * (packet * 480 + i)) / 24_000));

  it('carries a tone from 24 kHz to 48 kHz at its pitch and level', () => {
    const encode = new codecs.OpusEncoder({ sampleRate: 24_000, channels: 1, bitrate: 48_000 });
    const decode = new codecs.OpusDecoder({ sampleRate: 48_000, channels: 1 });
    const heard: number[] = [];
    for (let packet = 0; packet < 50; packet++) {
      const pcm = decode.decode(encode.encode(tone(1000, packet)));
      assert.equal(pcm.length, 960);
      if (packet >= 10) heard.push(...pcm);
    }
    let crossings = 0;
    for (let i = 1; i < heard.length; i++) if (heard[i - 1]! < 0 && heard[i]! >= 0) crossings++;
    assert.ok(Math.abs((crossings * 48_000) / heard.length - 1000) < 10);
    const rms = Math.sqrt(heard.reduce((sum, x) => sum + x * x, 0) / heard.length);
    assert.ok(Math.abs(rms - 8000 / Math.SQRT2) < 600, `rms ${rms.toFixed(0)}`);
  });

  it('conceals a lost packet and refuses what is not one', () => {
    const encode = new codecs.OpusEncoder({ sampleRate: 24_000, channels: 1, bitrate: 32_000 });
    const decode = new codecs.OpusDecoder({ sampleRate: 48_000, channels: 1 });
    for (let packet = 0; packet < 10; packet++) decode.decode(encode.encode(tone(500, packet)));
    assert.equal(decode.decode(null).length, 960);
    assert.throws(() => encode.encode(new Int16Array(100)), RangeError);
    assert.throws(() => encode.encode(new Float32Array(480) as never), TypeError);
    assert.throws(() => new codecs.OpusEncoder({ sampleRate: 44_100 as never, channels: 1, bitrate: 32_000 }), TypeError);
    encode.close();
    assert.throws(() => encode.encode(tone(1, 0)), /closed/);
  });
});

describe('the addon', () => {
  it('works in several threads at once and survives the end of one that encodes', async () => {
    const source = `
      const { parentPort, workerData } = require('node:worker_threads');
      const codecs = require(workerData);
      const pixels = new Uint8Array(1280 * 720 * 3).map((_, i) => i * 31);
      const encoder = new codecs.VpxEncoder({ width: 1280, height: 720, framesPerSecond: 30, bitrate: 2000000 });
      (async () => { for (let n = 0; ; n++) { await Promise.all([encoder.encode(pixels, { format: 'rgb24', keyframe: false }), encoder.encode(pixels, { format: 'rgb24', keyframe: false })]); if (n === 0) parentPort.postMessage('encodes'); } })();`;
    const addon = new URL('../../native/build/segue_media.node', import.meta.url).pathname;
    const workers = [1, 2, 3].map(() => new Worker(source, { eval: true, workerData: addon }));
    await Promise.all(workers.map((worker) => once(worker, 'message')));
    await Promise.all(workers.map((worker) => worker.terminate()));
    const encoded = await encoder().encode(picture(0), { format: 'rgb24', keyframe: true });
    assert.ok(encoded.data.length > 0);
  });

  it('says what to run where it is not built', () => {
    assert.throws(
      () => loadNative('/nowhere/segue_media.node'),
      (error: unknown) => error instanceof SegueError && error.code === 'internal' && /make start/.test(error.message),
    );
  });
});
