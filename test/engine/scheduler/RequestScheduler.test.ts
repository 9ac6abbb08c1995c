import assert from 'node:assert/strict';
import { test } from 'node:test';
import { REMEMBERED_REQUESTS, RequestScheduler } from '../../../src/engine/scheduler/RequestScheduler.ts';
import type { EngineRequest } from '../../../src/streams/messages.ts';

function request(requestId: string, body: 'interrupt' | 'hard' | 'seamless' | 'pause' | 'adopt', epoch = 1): EngineRequest {
  const common = { type: 'session.request', sessionId: 's', requestId, epoch, conditioningVersion: 1 } as const;
  if (body === 'pause') return { ...common, request: 'pause' };
  if (body === 'interrupt' || body === 'adopt') return { ...common, request: body, presented90k: 0 };
  return { ...common, request: 'redirect', prompt: 'p', seamless: body === 'seamless', presented90k: 0 };
}

test('newest wins per kind', () => {
  const requests = new RequestScheduler();
  assert.deepEqual(requests.accept(request('a', 'hard'), 0, 0), { outcome: 'run', superseded: [] });
  assert.deepEqual(requests.accept(request('b', 'seamless'), 1, 1), { outcome: 'run', superseded: ['a'] });
  assert.deepEqual(requests.accept(request('c', 'pause'), 1, 2), { outcome: 'run', superseded: [] });
  assert.equal(requests.redirect?.requestId, 'b');
});

test('an interrupt ends a redirect of which nothing was seen', () => {
  const requests = new RequestScheduler();
  requests.accept(request('a', 'hard'), 0, 0);
  assert.deepEqual(requests.accept(request('i', 'interrupt', 2), 1, 0), { outcome: 'run', superseded: ['a'] });
});

test('a request of an epoch that was fenced since is stale, and is told by whom', () => {
  const requests = new RequestScheduler();
  requests.accept(request('new', 'interrupt', 3), 1, 0);
  assert.deepEqual(requests.accept(request('old', 'hard', 2), 3, 0), { outcome: 'stale', by: 'new' });
  assert.deepEqual(requests.accept(request('p', 'pause', 2), 3, 0), { outcome: 'run', superseded: [] }, 'what does not fence is no matter of epochs');
});

test('the same id again does nothing, answered or not', () => {
  const requests = new RequestScheduler();
  requests.accept(request('a', 'hard'), 0, 0);
  assert.equal(requests.accept(request('a', 'hard'), 1, 0).outcome, 'duplicate');
  assert.ok(requests.settle('a'));
  assert.equal(requests.accept(request('a', 'hard'), 1, 0).outcome, 'duplicate');
  assert.equal(requests.settle('a'), null, 'answered once');
});

test('an adopted epoch supersedes nothing and waits for no answer', () => {
  const requests = new RequestScheduler();
  requests.accept(request('a', 'hard'), 0, 0);
  assert.deepEqual(requests.accept(request('x', 'adopt', 2), 1, 0), { outcome: 'run', superseded: [] });
  assert.deepEqual(requests.drain().map(({ requestId }) => requestId), ['a']);
  assert.deepEqual(requests.drain(), []);
});

test('memory of ids is bounded', () => {
  const requests = new RequestScheduler();
  for (let n = 0; n <= REMEMBERED_REQUESTS; n++) {
    requests.accept(request(`r${n}`, 'pause'), 1, 0);
    requests.settle(`r${n}`);
  }
  assert.equal(requests.accept(request('r0', 'pause'), 1, 0).outcome, 'run', 'the oldest is forgotten');
  assert.equal(requests.accept(request('r2', 'pause'), 1, 0).outcome, 'duplicate');
});
