import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { audioVideoSkew, distinctPaints, framesPerSecond, oldMediaAfter, pressToGlass, isEpochOrLater, stalls, summarise } from '../../probe/derive.ts';
import type { PaintedSample, PressSample, Sample, SoundSample } from '../../probe/samples.ts';

const paint = (t: number, epoch: number, frame: number): PaintedSample => ({
  kind: 'painted',
  t,
  surface: 'canvas',
  stamp: { epoch, frame },
  key: frame * 7500,
  change: 3,
  width: 224,
  height: 128,
});
const sound = (t: number, tone: number | null): SoundSample => ({ kind: 'sound', t: t + 30, at: t / 1000, context: 0, durationMs: 10, rms: tone === null ? 0 : 0.2, tone, purity: 1 });
const press = (t: number): PressSample => ({ kind: 'press', t, hardware: t - 1, what: 'key:Escape', audio: [{ context: 0, at: t / 1000 }], handled: { t: t + 5, audio: [{ context: 0, at: (t + 5) / 1000 }] } });

describe('oldMediaAfter', () => {
  const clean: Sample[] = [paint(900, 4, 10), paint(983, 4, 11), press(1000), paint(1400, 5, 12), sound(980, 4), sound(1010, null), sound(1400, 5)];

  it('finds nothing where the glass was frozen and the sound faded', () => {
    const old = oldMediaAfter(clean, press(1000), 5);
    assert.deepEqual([old.frames.length, old.blocks.length, old.lastOldFrameMs, old.unread], [0, 0, 0, 0]);
  });

  it('finds a late old picture, but not the held one painted again', () => {
    assert.equal(oldMediaAfter([...clean, paint(1010, 4, 11)], press(1000), 5).frames.length, 0);
    const late = oldMediaAfter([...clean, paint(1060, 4, 12)], press(1000), 5);
    assert.equal(late.frames.length, 1);
    assert.equal(late.lastOldFrameMs, 60);
    const repeated = oldMediaAfter([...clean, paint(1060, 4, 12), paint(1300, 4, 12)], press(1000), 5);
    assert.equal(repeated.lastOldFrameMs, 60, 'a picture that stands still is painted once');
  });

  it('finds a picture older than the held one', () => {
    assert.equal(oldMediaAfter([...clean, paint(1010, 4, 9)], press(1000), 5).frames.length, 1);
  });

  it('finds an old tone after the fade, by the time it was rendered', () => {
    assert.equal(oldMediaAfter([...clean, sound(1020, 4)], press(1000), 5).blocks.length, 0);
    assert.equal(oldMediaAfter([...clean, sound(1030, 4)], press(1000), 5).blocks.length, 1);
    const slow = { ...press(1000), handled: { t: 1500, audio: [{ context: 0, at: 1.5 }] } };
    assert.equal(oldMediaAfter([...clean, sound(1090, 4)], slow, 5).blocks.length, 1, 'a page that takes half a second is not excused');
  });

  it('counts across the wrap of the epoch', () => {
    const samples = [paint(990, 1023, 1), press(1000), paint(1050, 1023, 2), paint(1100, 0, 3)];
    assert.equal(oldMediaAfter(samples, press(1000), 1024).frames.length, 1);
  });
});

describe('summaries', () => {
  it('measures press to the first picture of the new epoch', () => {
    const samples = [press(1000), paint(1010, 4, 1), paint(1250, 5, 2)];
    assert.equal(pressToGlass(samples, press(1000), (sample) => isEpochOrLater(sample, 5)), 250);
    assert.equal(pressToGlass(samples, press(1000), (sample) => isEpochOrLater(sample, 6)), null);
  });

  it('counts a picture drawn twice once, and finds the gap', () => {
    const samples = [paint(0, 0, 0), paint(16, 0, 0), paint(83, 0, 1), paint(166, 0, 2), paint(500, 0, 3)];
    assert.equal(distinctPaints(samples).length, 4);
    assert.equal(framesPerSecond(samples, 0, 1000), 4);
    assert.deepEqual(stalls(samples, 200), [{ from: 166, durationMs: 334 }]);
  });

  it('measures the skew of sound against picture where the epoch changes', () => {
    const samples: Sample[] = [paint(0, 0, 0), sound(0, 0), paint(100, 1, 1), sound(110, 1), sound(120, 1)];
    assert.deepEqual(audioVideoSkew(samples), [{ epoch: 1, t: 100, skewMs: 40 }]);
  });

  it('ranks percentiles and refuses an empty list', () => {
    assert.deepEqual(summarise([3, 1, 2]), { n: 3, min: 1, p50: 2, p95: 3, p99: 3, max: 3 });
    assert.throws(() => summarise([]), TypeError);
  });
});
