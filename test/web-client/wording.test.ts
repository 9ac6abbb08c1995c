import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { budgetText, degradedText, endingOf, waitingText, warningText } from '../../web-client/page/wording.ts';
import { ClientError } from '../../web-client/sdk/ClientError.ts';
import { DEGRADE_RUNGS } from '../../src/protocol/degraded.ts';
import { ERRORS } from '../../src/protocol/errors.ts';

describe('endings', () => {
  it('tells an unreachable server from a connection that was lost', () => {
    const error = new ClientError('network', 'fetch failed');
    assert.match(endingOf(error, false).title, /can’t be reached/);
    assert.match(endingOf(error, true).title, /connection was lost/);
  });

  it('repeats why the server ended a session, as a sentence', () => {
    assert.deepEqual(endingOf(new ClientError('closed', 'idle for 600 s'), true), { title: 'The drive has ended.', detail: 'Idle for 600 s.', way: 'Join again' });
    assert.deepEqual(endingOf(new ClientError('closed', 'You left.'), true), { title: 'You left the drive.', detail: '', way: 'Join again' });
  });

  it('says when the next try may succeed, where the server has said so', () => {
    const error = ClientError.from({ code: 'rate_limited', message: 'too many', retryable: true, retryAfterMs: 12_300 });
    assert.match(endingOf(error, false).detail, /13 s/);
  });

  it('has a title and a way on for every code, and its button is found by the word join', () => {
    for (const code of Object.keys(ERRORS) as (keyof typeof ERRORS)[]) {
      for (const wasJoined of [false, true]) {
        const { title, way } = endingOf(ClientError.from({ code, message: 'why', retryable: false }), wasJoined);
        assert.notEqual(title, '');
        assert.match(way, /join/i);
      }
    }
  });
});

describe('warnings of a prompt', () => {
  it('tells words that are not known from words that were replaced', () => {
    assert.equal(warningText({ code: 'unknown_words', words: ['xyzzy', 'plugh'], message: '' }), 'I don’t know: xyzzy, plugh.');
    assert.equal(warningText({ code: 'replaced', words: ['forest'], message: '' }), 'Replaced by what you said after it: forest.');
    assert.equal(warningText({ code: 'negated', words: ['city'], message: '' }), 'What instead of city?');
    const many = warningText({ code: 'unknown_words', words: ['a'.repeat(970), ...Array.from({ length: 11 }, (_, at) => `w${at}`)], message: '' });
    assert.ok(many.length < 120 && many.endsWith('w6, and 4 more.'), many);
  });
});

describe('waiting in line', () => {
  it('says the place, and about when its turn comes where that is known', () => {
    assert.deepEqual(waitingText({ position: 2 }), { title: 'You are number 2 in line', detail: 'Every seat is taken; you enter as soon as one is free.' });
    const detail = (estimateMs: number) => /That is likely (.*)\.$/.exec(waitingText({ position: 1, estimateMs }).detail)?.[1];
    assert.deepEqual([0, 30_000, 60_000, 130_000, 23 * 60_000, 5_400_000].map(detail), ['within a minute', 'within a minute', 'in about a minute', 'in about 2 minutes', 'in about 25 minutes', 'in more than an hour']);
    assert.equal(waitingText({}).title, 'The line is full');
  });
});

describe('a budget that runs out', () => {
  it('is told as what is left of it', () => {
    assert.deepEqual([budgetText('wallMs', 29_001), budgetText('deviceMs', 1_500), budgetText('sentBytes', 4_200_000)], ['It ends in 30 s.', '2 s of computing are left.', '5 MB of picture and sound are left.']);
  });
});

describe('a drive that goes without', () => {
  it('says what, in a few words, and something of a rung that it does not know', () => {
    assert.deepEqual(DEGRADE_RUNGS.map((rung) => degradedText({ rung })), ['Busy server: no previews', 'Busy server: keys land later', 'Busy server: softer pictures', 'Busy server: slower than time']);
    assert.equal(degradedText({ rung: 'newer' as 'pace' }), 'Busy server');
  });
});
