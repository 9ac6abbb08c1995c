import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { FrameNotice } from '../../web-client/sdk/messages.ts';
import { RequestMeasures } from '../../web-client/sdk/RequestMeasures.ts';

const notice = (epoch: number, conditioningVersion: number): FrameNotice => ({ type: 'frame', rtp: 0, audioRtp: 0, epoch, conditioningVersion, actionSequence: 0, chunk: 0, frameInChunk: 0, step: 0, media90k: 0, origin: 'generated' });

describe('RequestMeasures', () => {
  it('measures from the press to the answer and to the first changed frame', () => {
    const measures = new RequestMeasures();
    measures.painted(notice(1, 1), 90);
    measures.pressed({ type: 'redirect', id: 'r', prompt: 'dunes' }, 100);
    measures.accepted({ type: 'accepted', re: 'r', epoch: 2, conditioningVersion: 2 }, 104);
    assert.equal(measures.painted(notice(2, 2), 180).length, 1);
    assert.equal(measures.painted(notice(2, 2), 260).length, 0, 'only the first');
    const [measure] = measures.recent;
    assert.equal(measure?.acceptedMs, 4);
    assert.equal(measure?.firstChangedMs, 80);
    assert.equal(measure?.lastOldMs, -10, 'nothing old after the press');
  });

  it('measures a cut and a blend as it does a redirect; a hold changes no picture', () => {
    const measures = new RequestMeasures();
    measures.pressed({ type: 'cut', id: 'c', prompt: 'dunes' }, 100);
    measures.accepted({ type: 'accepted', re: 'c', epoch: 2, conditioningVersion: 2 }, 104);
    measures.painted(notice(2, 2), 180);
    measures.pressed({ type: 'blend', id: 'b', prompt: 'night' }, 200);
    measures.accepted({ type: 'accepted', re: 'b', epoch: 2, conditioningVersion: 3 }, 204);
    measures.pressed({ type: 'hold', id: 'h' }, 210);
    measures.accepted({ type: 'accepted', re: 'h', epoch: 2, conditioningVersion: 3 }, 212);
    measures.painted(notice(2, 3), 320);
    assert.deepEqual(measures.recent.map(({ type, prompt, firstChangedMs }) => [type, prompt, firstChangedMs]), [['hold', null, null], ['blend', 'night', 120], ['cut', 'dunes', 80]]);
  });

  it('finds a seamless change that was painted before its answer came', () => {
    const measures = new RequestMeasures();
    measures.pressed({ type: 'redirect', id: 'r', prompt: 'dunes', seamless: true }, 100);
    measures.painted(notice(1, 1), 150);
    measures.painted(notice(1, 2), 230);
    measures.painted(notice(1, 2), 310);
    measures.accepted({ type: 'accepted', re: 'r', epoch: 1, conditioningVersion: 2 }, 320);
    assert.equal(measures.recent[0]?.firstChangedMs, 130);
  });

  it('does not take a frame from before the press for a change', () => {
    const measures = new RequestMeasures();
    measures.painted(notice(1, 5), 50);
    measures.pressed({ type: 'redirect', id: 'r', prompt: 'dunes', seamless: true }, 100);
    measures.accepted({ type: 'accepted', re: 'r', epoch: 1, conditioningVersion: 5 }, 120);
    assert.equal(measures.recent[0]?.firstChangedMs, null);
  });

  it('keeps a bounded number, newest first', () => {
    const measures = new RequestMeasures();
    for (let i = 0; i < 100; i += 1) measures.pressed({ type: 'interrupt', id: String(i) }, i);
    assert.equal(measures.recent.length, 32);
    assert.equal(measures.recent[0]?.id, '99');
  });

  it('names the adapter that was asked for, and that none was', () => {
    const measures = new RequestMeasures();
    measures.pressed({ type: 'redirect', id: 'a', adapter: { id: 'noir' } }, 100);
    measures.pressed({ type: 'redirect', id: 'b', adapter: null }, 200);
    measures.pressed({ type: 'redirect', id: 'c', prompt: 'dunes' }, 300);
    assert.deepEqual(measures.recent.map(({ id, adapter }) => [id, adapter]), [['c', undefined], ['b', null], ['a', 'noir']]);
  });
});
