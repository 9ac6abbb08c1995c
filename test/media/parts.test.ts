import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { BitrateControl } from '../../src/media/BitrateControl.ts';
import { KEYFRAME_INTERVAL_MS, KeyframePolicy } from '../../src/media/KeyframePolicy.ts';
import { RtpClock, rtpDistance } from '../../src/media/RtpClock.ts';
import { StampTone, drawStamp, readStamp, stampOf, toneHz } from '../../src/media/stamp.ts';
import { MAX_PAYLOAD_BYTES, vp8Payloads } from '../../src/media/vp8_payload.ts';
import { loadNative } from '../../src/media/native.ts';

describe('bitrate', () => {
  const bounds = { min: 150_000, start: 800_000, max: 2_500_000, audio: 48_000 };

  it('is what the slowest receiver takes, within bounds', () => {
    const control = new BitrateControl(bounds);
    assert.equal(control.lost('a', 0), 864_000);
    assert.equal(control.estimated('b', 1_000_000), 800_000, 'a newcomer begins at the start');
    assert.equal(control.estimated('b', 400_000), 400_000, 'the estimate fell');
    assert.equal(control.estimated('b', 10_000), 150_000);
    assert.equal(control.estimated('b', 900_000), null, 'one that is back is not proof enough');
    assert.equal(control.remove('b'), 864_000);
    assert.equal(control.remove('a'), 800_000);
  });

  it('is not held down by the estimate of a calm picture, which only follows what is sent', () => {
    const control = new BitrateControl(bounds);
    for (let n = 0; n < 60; n++) {
      control.estimated('a', 140_000 + n * 1000);
      control.lost('a', 0);
    }
    assert.equal(control.target, 2_500_000);
  });

  it('falls with loss and climbs back', () => {
    const control = new BitrateControl(bounds);
    assert.equal(control.lost('a', 0.2), 720_000);
    assert.equal(control.lost('a', 0.05), null);
    for (let n = 0; n < 40; n++) control.lost('a', 0);
    assert.equal(control.target, 2_500_000);
    for (let n = 0; n < 40; n++) control.lost('a', 0.5);
    assert.equal(control.target, 150_000);
  });
});

describe('keyframes', () => {
  it('are one for requests that come together, and at least 300 ms apart', () => {
    const policy = new KeyframePolicy();
    assert.equal(policy.decide(0), 'key');
    policy.sent(0);
    for (let n = 0; n < 8; n++) policy.request();
    assert.equal(policy.decide(KEYFRAME_INTERVAL_MS - 1), 'delta');
    assert.equal(policy.decide(KEYFRAME_INTERVAL_MS), 'key');
    policy.sent(KEYFRAME_INTERVAL_MS);
    assert.equal(policy.decide(10_000), 'delta');
  });

  it('come sooner where nothing else can be decoded, and nothing is sent meanwhile', () => {
    const policy = new KeyframePolicy();
    policy.sent(0);
    policy.require();
    assert.equal(policy.decide(50), 'wait');
    assert.equal(policy.decide(100), 'key');
  });
});

describe('RTP clocks', () => {
  it('run on one time, wrap, and give NTP with its fraction', () => {
    const clock = new RtpClock(1000, Date.UTC(2026, 0, 1) + 250, () => 0.999_999_9);
    const [video, audio] = [clock.video(1000), clock.audio(1000)];
    assert.equal(rtpDistance(clock.video(11_000), video), 900_000);
    assert.equal(rtpDistance(clock.audio(11_000), audio), 480_000);
    assert.ok(clock.video(11_000) < 2 ** 32);
    const ntp = clock.ntp(1500);
    assert.equal(Number(ntp >> 32n) - 2_208_988_800, Date.UTC(2026, 0, 1) / 1000);
    assert.ok(Math.abs(Number(ntp & 0xffffffffn) / 2 ** 32 - 0.75) < 1e-6);
  });
});

describe('VP8 payloads', () => {
  it('put together are the frame, each within the bound, the first marked', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 6000 }), fc.nat(0x7fff), (frame, id) => {
        const payloads = vp8Payloads(frame, id);
        assert.deepEqual(Buffer.concat(payloads.map((payload) => payload.subarray(4))), Buffer.from(frame));
        payloads.forEach((payload, part) => {
          assert.ok(payload.length <= MAX_PAYLOAD_BYTES && payload.length > 4);
          assert.equal(payload[0], part === 0 ? 0x90 : 0x80);
          assert.equal(((payload[2]! & 0x7f) << 8) | payload[3]!, id);
        });
      }),
    );
  });
});

describe('stamp', () => {
  const WIDTH = 224;
  const HEIGHT = 128;

  it('is read back for every epoch and frame', () => {
    const rgb = new Uint8Array(WIDTH * HEIGHT * 3).fill(99);
    fc.assert(
      fc.property(fc.nat(5000), fc.nat(200_000), (epoch, frame) => {
        drawStamp(rgb, WIDTH, stampOf(epoch, frame * 7500, 7500));
        assert.deepEqual(readStamp(rgb, WIDTH, 3), { epoch: epoch % 1024, frame: frame % 65_536 });
      }),
    );
    assert.equal(rgb[28 * WIDTH * 3], 99, 'below it nothing is touched');
  });

  it('lies where the layout says', () => {
    const rgb = new Uint8Array(WIDTH * HEIGHT * 3);
    drawStamp(rgb, WIDTH, { epoch: 0b10_0000_0001, frame: 1 });
    const level = (bit: number): number => rgb[((bit >> 4) * 14 * WIDTH + (bit % 16) * 14) * 3]!;
    assert.deepEqual([level(0), level(1), level(9), level(10), level(25), level(24)], [220, 30, 220, 30, 220, 30]);
    const sum = (0b10_0000_0001 * 31 + 7 + 13) % 61;
    for (let bit = 0; bit < 6; bit++) assert.equal(level(26 + bit), (sum >> (5 - bit)) & 1 ? 220 : 30);
  });

  it('survives VP8 at the lowest bitrate, and noise is no stamp', async () => {
    const { VpxEncoder, VpxDecoder } = loadNative();
    const encoder = new VpxEncoder({ width: WIDTH, height: HEIGHT, framesPerSecond: 12, bitrate: 150_000 });
    const decoder = new VpxDecoder();
    const rgb = new Uint8Array(WIDTH * HEIGHT * 3);
    for (let frame = 0; frame < 24; frame++) {
      for (let i = 0; i < rgb.length; i++) rgb[i] = 128 + 100 * Math.sin(i / 50 + frame) * Math.cos(i / 3000);
      drawStamp(rgb, WIDTH, stampOf(7, frame * 7500, 7500));
      const { data } = await encoder.encode(rgb, { format: 'rgb24', keyframe: frame === 0 });
      assert.deepEqual(readStamp((await decoder.decode(data, 'rgb24')).data, WIDTH, 3), { epoch: 7, frame });
    }
    let accepted = 0;
    for (let n = 0; n < 300; n++) {
      for (let bit = 0; bit < 32; bit++) for (let y = 0; y < 14; y++) rgb.fill(Math.random() * 255, (((bit >> 4) * 14 + y) * WIDTH + (bit % 16) * 14) * 3, (((bit >> 4) * 14 + y) * WIDTH + (bit % 16) * 14 + 14) * 3);
      if (readStamp(rgb, WIDTH, 3) !== null) accepted++;
    }
    assert.ok(accepted < 30, `${accepted} of 300 random patterns passed a checksum of 6 bits`);
  });

  it('sounds each epoch at its pitch, without a step between packets', () => {
    const tone = new StampTone(24_000);
    const samples = new Int16Array(24_000);
    for (let at = 0; at < samples.length; at += 480) tone.fill(samples, at, 480, 3);
    let crossings = 0;
    let step = 0;
    for (let i = 1; i < samples.length; i++) {
      if (samples[i - 1]! < 0 && samples[i]! >= 0) crossings++;
      step = Math.max(step, Math.abs(samples[i]! - samples[i - 1]!));
    }
    assert.ok(Math.abs(crossings - toneHz(3)) <= 1);
    assert.ok(step <= 0.25 * 32_767 * 2 * Math.PI * (toneHz(3) / 24_000) + 1);
    assert.ok(Math.abs(Math.max(...samples) / 32_767 - 0.25) < 0.003);
  });
});
