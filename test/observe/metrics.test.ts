import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { EventLoopMonitor } from '../../src/observe/EventLoopMonitor.ts';
import { Metrics } from '../../src/observe/Metrics.ts';

describe('metrics', () => {
  it('take over totals of another thread, also after it starts counting anew', async () => {
    const metrics = new Metrics();
    const named = {
      framesSent: { name: 'segue_media_frames_total', help: 'Pictures sent', type: 'counter' },
      busyMs: { name: 'segue_busy_seconds_total', help: 'Time at work', type: 'counter', scale: 0.001 },
      connections: { name: 'segue_media_connections', help: 'Connections', type: 'gauge' },
      broken: { name: 'segue_broken', help: 'Never a number', type: 'gauge' },
    } as const;
    for (const framesSent of [5, 9, 2]) metrics.takeStats({ framesSent, busyMs: framesSent * 1_000, connections: framesSent, broken: Number.NaN, unnamed: 1 }, named);
    const text = await metrics.render();
    assert.match(text, /^# HELP segue_media_frames_total Pictures sent$/m);
    assert.match(text, /^segue_media_frames_total 11$/m);
    assert.match(text, /^segue_busy_seconds_total 11$/m);
    assert.match(text, /^segue_media_connections 2$/m);
    assert.doesNotMatch(text, /broken|unnamed/);
  });

  it('read values when scraped, and forget labels that are gone', async () => {
    const metrics = new Metrics();
    let values: Record<string, number> = { a: 1, b: 2 };
    metrics.gaugeBy('segue_things', 'Things', 'kind', () => values);
    assert.match(await metrics.render(), /kind="b"} 2/);
    values = { a: 3 };
    const text = await metrics.render();
    assert.match(text, /kind="a"} 3/);
    assert.doesNotMatch(text, /kind="b"/);
    assert.throws(() => metrics.gauge('segue_things', 'again', () => 1), /exists/);
  });

  it('a method that nobody knows makes no series of its own', async () => {
    const metrics = new Metrics();
    for (const method of ['GET', 'PROPFIND', 'M-SEARCH']) metrics.observeHttp(method, 'unknown', 404, 3);
    const text = await metrics.render();
    assert.match(text, /method="other",route="unknown",status="404"\} 2$/m);
    assert.doesNotMatch(text, /PROPFIND|M-SEARCH/);
  });

  it('two servers in one process do not mix', async () => {
    const [one, other] = [new Metrics(), new Metrics()];
    one.observeRequest('redirect', 'applied', 40);
    assert.match(await one.render(), /segue_session_request_duration_seconds_count\{kind="redirect",answer="applied"\} 1/);
    assert.doesNotMatch(await other.render(), /kind="redirect"/);
  });
});

describe('event loop monitor', () => {
  it('sees a stall of its thread', async () => {
    const monitor = new EventLoopMonitor();
    const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 25));
    await turn();
    const until = performance.now() + 120;
    while (performance.now() < until);
    await turn();
    const { p50Ms, p99Ms, maxMs } = monitor.read();
    // The stall began up to one sampling interval into a sample, so less than all of it may be counted.
    assert.ok(maxMs >= 100, `max ${maxMs}`);
    assert.ok(p50Ms <= p99Ms && p99Ms <= maxMs + 1, `${p50Ms} ${p99Ms} ${maxMs}`);
    monitor.close();
    monitor.close();
  });
});
