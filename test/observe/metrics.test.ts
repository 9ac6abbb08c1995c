import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { EventLoopMonitor } from '../../src/observe/EventLoopMonitor.ts';
import { Metrics } from '../../src/observe/Metrics.ts';

describe('metrics', () => {
  it('take over totals of another thread, also after it starts counting anew', async () => {
    const metrics = new Metrics();
    for (const framesSent of [5, 9, 2]) metrics.takeStats('segue_media', { framesSent, connections: framesSent, broken: Number.NaN }, new Set(['connections']));
    const text = await metrics.render();
    assert.match(text, /^segue_media_frames_sent_total 11$/m);
    assert.match(text, /^segue_media_connections 2$/m);
    assert.doesNotMatch(text, /broken/);
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

  it('two servers in one process do not mix', async () => {
    const [one, other] = [new Metrics(), new Metrics()];
    one.observeRequest('redirect', 'applied', 40);
    assert.match(await one.render(), /segue_request_ms_count\{kind="redirect",answer="applied"\} 1/);
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
