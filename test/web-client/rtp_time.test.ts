import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { rtpAdd, rtpAtOrAfter, rtpDifference } from '../../web-client/sdk/rtp_time.ts';

describe('RTP time', () => {
  it('orders across the 32-bit wrap', () => {
    assert.equal(rtpDifference(5, 0xfffffff0), 21);
    assert.equal(rtpAtOrAfter(5, 0xfffffff0), true);
    assert.equal(rtpAtOrAfter(0xfffffff0, 5), false);
    assert.equal(rtpAdd(0xffffffff, 1), 0);
  });

  it('property: adding less than half the range moves forward by just that', () => {
    fc.assert(fc.property(fc.integer({ min: 0, max: 0xffffffff }), fc.integer({ min: 0, max: 0x7fffffff }), (rtp, ticks) => {
      assert.equal(rtpDifference(rtpAdd(rtp, ticks), rtp), ticks);
    }));
  });
});
