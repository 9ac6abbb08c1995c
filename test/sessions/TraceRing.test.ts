import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MAX_TRACE_EVENTS, TraceRing } from '../../src/sessions/TraceRing.ts';

describe('trace ring', () => {
  it('keeps the newest events in order and says how many it dropped', () => {
    const ring = new TraceRing();
    for (let at = 0; at < MAX_TRACE_EVENTS + 3; at++) ring.push({ type: 'trace.step', name: `s${at}`, atMs: at });
    assert.equal(ring.length, MAX_TRACE_EVENTS);
    const events = ring.events();
    assert.deepEqual([events[0]?.name, events.at(-1)?.name], ['s3', `s${MAX_TRACE_EVENTS + 2}`]);
    assert.deepEqual(ring.toChromeTrace('ses').otherData, { sessionId: 'ses', dropped: 3 });
  });

  it('gives every loop a track of its own', () => {
    const ring = new TraceRing();
    for (const loopId of ['video', 'sound', 'video']) ring.push({ type: 'trace.step', name: 'x', atMs: 1, durationMs: 2, loopId });
    const { traceEvents } = ring.toChromeTrace('ses');
    const tids = traceEvents.filter(({ ph }) => ph === 'X').map(({ tid }) => tid);
    assert.equal(tids[0], tids[2]);
    assert.notEqual(tids[0], tids[1]);
    assert.deepEqual(traceEvents.filter(({ name }) => name === 'thread_name').map(({ args }) => args['name']), ['video', 'sound']);
  });
});
