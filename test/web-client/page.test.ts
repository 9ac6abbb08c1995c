import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readPageOptions } from '../../web-client/page/page_options.ts';
import { Steering } from '../../web-client/page/Steering.ts';

describe('Steering', () => {
  it('lets the newest source that holds something count, and falls back to the one before', () => {
    const seen: string[] = [];
    const steering = new Steering(({ steer, speed }) => seen.push(`${steer}/${speed}`));
    steering.hold('keyboard', -1);
    steering.hold('touch', 1);
    steering.hold('touch', 0);
    steering.hold('keyboard', 0);
    assert.deepEqual(seen, ['-1/2', '1/2', '-1/2', '0/2']);
  });

  it('says nothing twice for a source that repeats itself', () => {
    let calls = 0;
    const steering = new Steering(() => (calls += 1));
    for (let i = 0; i < 5; i += 1) steering.hold('gamepad', 1);
    assert.equal(calls, 1);
  });

  it('keeps speed within 0 and 3, and lets go of the wheel but not of the speed', () => {
    const steering = new Steering(() => undefined);
    for (let i = 0; i < 5; i += 1) steering.changeSpeed(1);
    assert.equal(steering.speed, 3);
    for (let i = 0; i < 9; i += 1) steering.changeSpeed(-1);
    assert.equal(steering.speed, 0);
    steering.setSpeed(3);
    steering.hold('keyboard', 1);
    steering.releaseAll();
    assert.deepEqual([steering.steer, steering.speed], [0, 3]);
  });
});

describe('page options', () => {
  it('reads what the URL asks for', () => {
    assert.deepEqual(readPageOptions('?transport=websocket&prompt=dunes%20at%20dawn&seed=7&stamp=1&overlay=1'), { transport: 'websocket', overlay: true, share: null, join: null, session: { prompt: 'dunes at dawn', seed: 7, stamp: true } });
  });

  it('takes no notice of what makes no sense', () => {
    assert.deepEqual(readPageOptions('?transport=pigeon&prompt=%20&seed=-3&stamp=yes'), { transport: 'auto', overlay: false, share: null, join: null, session: {} });
    assert.deepEqual(readPageOptions('?seed='), { transport: 'auto', overlay: false, share: null, join: null, session: {} });
    assert.deepEqual(readPageOptions('', '#session=ses_1&token=a.b').join, { id: 'ses_1', clientToken: 'a.b' });
    assert.equal(readPageOptions('', '#session=ses_1').join, null);
  });
});
