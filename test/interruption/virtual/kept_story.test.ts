/** Random lives of a session that is kept, cut off at a random moment and gone on with from what was kept. On a virtual clock, with scripted tensors. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ChunkData } from '../../../src/realtime-programs/ContinuationKeeping.ts';
import { keptFrame } from '../../../src/realtime-programs/kept_frame.ts';
import { Simulation } from './Simulation.ts';
import type { RequestBody, SimulatedSession } from './SimulatedSession.ts';

const body = fc.oneof(
  fc.constant<RequestBody>({ request: 'interrupt' }),
  fc.record({ request: fc.constant('redirect' as const), prompt: fc.integer({ min: 0, max: 4 }).map((place) => `scene ${place}`), seamless: fc.boolean() }),
  fc.record({ request: fc.constant('cut' as const), prompt: fc.integer({ min: 0, max: 4 }).map((place) => `scene ${place}`) }),
  fc.record({ request: fc.constant('blend' as const), prompt: fc.integer({ min: 0, max: 4 }).map((place) => `scene ${place}`), chunks: fc.integer({ min: 2, max: 9 }) }),
  fc.constantFrom<RequestBody>({ request: 'redirect', prompt: null, adapter: { id: 'noir', scale: 1 }, seamless: true }, { request: 'redirect', prompt: null, adapter: null, seamless: false }),
  fc.constant<RequestBody>({ request: 'hold' }),
  fc.constant<RequestBody>({ request: 'release' }),
  fc.constant<RequestBody>({ request: 'pause' }),
  fc.constant<RequestBody>({ request: 'resume' }),
);
const life = fc.record({
  steps: fc.constantFrom(2, 4),
  snapshotChunks: fc.constantFrom(1, 3, 8),
  dropSnapshot: fc.boolean(),
  before: fc.array(fc.record({ afterMs: fc.integer({ min: 0, max: 700 }), body: fc.option(body), steer: fc.constantFrom(-1, 0, 1), drafted: fc.option(fc.integer({ min: 0, max: 4 }).map((place) => `scene ${place}`)) }), { minLength: 1, maxLength: 8 }),
  after: fc.array(fc.record({ afterMs: fc.integer({ min: 0, max: 400 }), body: fc.option(body), steer: fc.constantFrom(-1, 0, 1), drafted: fc.option(fc.integer({ min: 0, max: 4 }).map((place) => `scene ${place}`)) }), { maxLength: 4 }),
});

test('whatever a session went through, it goes on from what was kept: where it was committed, without a gap, and nothing is left behind', async (t) => {
  let resumed = 0;
  let pinned = 0;
  let cuts = 0;
  let midBlend = 0;
  let parts = 0;
  await fc.assert(
    fc.asyncProperty(life, async ({ steps, snapshotChunks, dropSnapshot, before, after }) => {
      const simulation = new Simulation({ steps, engine: { snapshotChunks } });
      let requests = 0;
      const live = async (session: SimulatedSession, events: typeof before): Promise<void> => {
        for (const { afterMs, body: asked, steer, drafted } of events) {
          await simulation.run(afterMs);
          session.act(steer);
          if (drafted !== null) simulation.draft(session, `d${requests}`, drafted);
          if (asked !== null) simulation.request(session, `r${++requests}`, asked, 3);
        }
      };
      const first = simulation.open('first');
      await live(first, before);
      await simulation.run(300);
      // Cut off: what is kept now is all that there is.
      const story = simulation.story('first');
      const kept = simulation.kept.get('first')!;
      assert.equal(kept.chunks.length, Math.floor(first.committed90k / 15_000), 'every chunk that was committed is kept, and no other');
      pinned += kept.chunks.filter(({ tensors }) => tensors.some(({ name }) => name === 'pin')).length;
      const presented90k = first.held90k;
      simulation.close(first);
      await simulation.run(500);
      // Ended wherever it was: whatever had been seen is kept, of the last chunk as much as was.
      for (let frame90k = 0; frame90k < presented90k; frame90k += 7_500) {
        const of = [...kept.chunks, ...kept.parts.map(({ chunk }) => chunk)].find(({ start90k, end90k }) => frame90k >= start90k && frame90k < end90k);
        assert.ok(of !== undefined && keptFrame(of, Math.round((frame90k - of.start90k) / 7_500)).latents.data.byteLength > 0, `frame ${frame90k / 7_500} of ${presented90k / 7_500}`);
      }
      parts += kept.parts.length;
      if (story !== null) {
        resumed++;
        const told = story.chunks.map(({ data }) => JSON.parse(data) as ChunkData);
        cuts += told.filter(({ write }, index) => write === null && index > 0).length;
        if (told.at(-1)!.steps.some(({ mix }) => mix !== undefined)) midBlend++;
        const second = simulation.open('second', null, 1, null, null, dropSnapshot ? { ...story, snapshot: null } : story);
        await simulation.run(1_000);
        assert.ok(second.frames.length > 0, 'it moves');
        assert.equal(second.frames[0]!.start90k, story.chunks.at(-1)!.end90k);
        const opened = simulation.messages.find((message) => message.type === 'session.opened' && message.sessionId === 'second');
        assert.ok(opened?.type === 'session.opened' && opened.resumedExactly === (!dropSnapshot && story.snapshot !== null));
        await live(second, after);
        await simulation.run(600);
        const more = simulation.kept.get('second')!.chunks;
        if (more.length > 0) assert.equal(more[0]!.chunk, story.chunks.at(-1)!.chunk + 1);
      }
      await simulation.finish();
    }),
    { numRuns: 300 },
  );
  t.diagnostic(`${resumed} stories gone on with, ${midBlend} of them inside a blend; ${cuts} cuts in them; ${pinned} chunks made around a frame that was seen; ${parts} ended inside a chunk`);
  assert.ok(resumed > 0 && pinned > 0 && cuts > 0 && midBlend > 0 && parts > 0);
});
