import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it, mock } from 'node:test';
import { ClientError } from '../../web-client/sdk/ClientError.ts';
import type { Accepted, Applied, Forked } from '../../web-client/sdk/messages.ts';
import { MAX_OPEN_REQUESTS, REQUEST_TIMEOUT_MS, RequestBook } from '../../web-client/sdk/RequestBook.ts';

const accepted = (re: string): Accepted => ({ type: 'accepted', re, epoch: 4, conditioningVersion: 7 });
const applied = (re: string): Applied => ({ type: 'applied', re, how: 'restart', epoch: 4, conditioningVersion: 7, chunk: 9, step: 0, media90k: 90_000, predictedMs: 80, elapsedMs: 75, warnings: [] });

function bookWithLog() {
  const log: string[] = [];
  const book = new RequestBook(
    {
      accepted: (answer) => log.push(`accepted ${answer.re}`),
      applied: (answer) => log.push(`applied ${answer.re}`),
      forked: (answer) => log.push(`forked ${answer.re}`),
      failed: (error, request) => log.push(`${error.code} ${request.id}`),
    },
    'c',
  );
  return { book, log };
}

describe('RequestBook', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
  afterEach(() => mock.timers.reset());

  it('matches answers by id and resolves both promises', async () => {
    const { book, log } = bookWithLog();
    const first = book.add({ type: 'interrupt', id: book.nextId() });
    const second = book.add({ type: 'pause', id: book.nextId() });
    assert.notEqual(first.id, second.id);
    book.answer(accepted(second.id));
    book.answer(applied(second.id));
    assert.equal((await second.applied).chunk, 9);
    assert.deepEqual(log, [`accepted ${second.id}`, `applied ${second.id}`]);
    assert.deepEqual(book.open.map(({ id }) => id), [first.id]);
  });

  it('a fork’s last answer is the session that it made', async () => {
    const { book, log } = bookWithLog();
    const fork = book.addFork({ type: 'fork', id: book.nextId() });
    const refused = book.addFork({ type: 'fork', id: book.nextId() });
    const forked: Forked = { type: 'forked', re: fork.id, session: 'ses_2', clientToken: 't', expiresAt: '2026-01-01T00:00:00Z', media90k: 30_000 };
    book.answer(accepted(fork.id));
    book.answer(forked);
    book.answer({ type: 'error', re: refused.id, error: { code: 'at_capacity', message: 'all places are taken', retryable: true, ticket: 'x' } });
    assert.deepEqual(await fork.forked, forked);
    await assert.rejects(refused.forked, (error: ClientError) => error.code === 'at_capacity');
    assert.deepEqual(log, [`accepted ${fork.id}`, `forked ${fork.id}`, `at_capacity ${refused.id}`]);
    assert.deepEqual(book.open, []);
  });

  it('takes a repeated answer for nothing new', () => {
    const { book, log } = bookWithLog();
    const { id } = book.add({ type: 'interrupt', id: book.nextId() });
    for (let i = 0; i < 3; i += 1) book.answer(accepted(id));
    for (let i = 0; i < 3; i += 1) book.answer(applied(id));
    assert.deepEqual(log, [`accepted ${id}`, `applied ${id}`]);
  });

  it('resolves accepted too when applied comes first', async () => {
    const { book } = bookWithLog();
    const handle = book.add({ type: 'interrupt', id: book.nextId() });
    book.answer(applied(handle.id));
    assert.equal((await handle.accepted).epoch, 4);
  });

  it('refuses what is not sent: both promises reject, and it is told once', async () => {
    const { book, log } = bookWithLog();
    const error = ClientError.from({ code: 'bad_request', message: 'a prompt needs words', retryable: false });
    const { id, accepted: first, applied: second } = book.refuse({ type: 'redirect', id: book.nextId(), prompt: '' }, error);
    await assert.rejects(first, { code: 'bad_request' });
    await assert.rejects(second, { code: 'bad_request' });
    assert.deepEqual([log, book.open], [[`bad_request ${id}`], []]);
  });

  it('gives up 5 s after the last sign, and not before', async () => {
    const { book, log } = bookWithLog();
    const { id, applied: promise } = book.add({ type: 'redirect', id: book.nextId(), prompt: 'dunes' });
    book.sent(id);
    mock.timers.tick(REQUEST_TIMEOUT_MS - 1);
    book.answer(accepted(id));
    mock.timers.tick(REQUEST_TIMEOUT_MS - 1);
    assert.deepEqual(log, [`accepted ${id}`]);
    mock.timers.tick(1);
    assert.deepEqual(log, [`accepted ${id}`, `timed_out ${id}`]);
    await assert.rejects(promise, (error: ClientError) => error.code === 'timed_out');
    assert.equal(book.answer(applied(id)), false, 'a late answer changes nothing');
  });

  it('runs no watchdog while the connection is lost', () => {
    const { book, log } = bookWithLog();
    const { id } = book.add({ type: 'interrupt', id: book.nextId() });
    book.sent(id);
    book.suspend();
    mock.timers.tick(10 * REQUEST_TIMEOUT_MS);
    assert.deepEqual(log, []);
    assert.equal(book.open.length, 1, 'it is there to be sent again');
    book.sent(id);
    mock.timers.tick(REQUEST_TIMEOUT_MS);
    assert.deepEqual(log, [`timed_out ${id}`]);
  });

  it('tells superseded and errors, with the server\'s body', async () => {
    const { book } = bookWithLog();
    const first = book.add({ type: 'redirect', id: book.nextId(), prompt: 'a' });
    book.answer({ type: 'superseded', re: first.id, by: 'x' });
    await assert.rejects(first.accepted, (error: ClientError) => error.code === 'superseded');
    const second = book.add({ type: 'redirect', id: book.nextId(), prompt: 'b' });
    book.answer({ type: 'error', re: second.id, error: { code: 'prompt_not_understood', message: 'no known words: b', retryable: false } });
    await assert.rejects(second.applied, (error: ClientError) => error.body?.code === 'prompt_not_understood');
    assert.equal(book.open.length, 0);
  });

  it('is bounded, and refuses the newest rather than forgetting an older one', () => {
    const { book } = bookWithLog();
    for (let i = 0; i < MAX_OPEN_REQUESTS; i += 1) book.add({ type: 'interrupt', id: book.nextId() });
    assert.throws(() => book.add({ type: 'interrupt', id: book.nextId() }), { code: 'rate_limited' });
    assert.equal(book.open.length, MAX_OPEN_REQUESTS);
  });
});
