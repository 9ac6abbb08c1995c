import assert from 'node:assert/strict';
import { beforeEach, mock, test } from 'node:test';
import { DraftTyping } from '../../web-client/page/DraftTyping.ts';

const line = { textContent: '' as string | null };
let sent: (string | null)[] = [];
let typing: DraftTyping;

beforeEach(() => {
  mock.timers.reset();
  mock.timers.enable({ apis: ['setTimeout'] });
  sent = [];
  line.textContent = '';
  typing = new DraftTyping(line, (draft) => sent.push(draft));
});

test('says what is typed once the fingers rest, and only what has changed', () => {
  for (const text of ['s', 'sn', 'sno', 'snow ']) {
    typing.typed(text);
    mock.timers.tick(100);
  }
  assert.deepEqual(sent, []);
  mock.timers.tick(100);
  assert.deepEqual(sent, ['snow']);
  typing.typed('  snow');
  mock.timers.tick(500);
  assert.deepEqual(sent, ['snow']);
});

test('an emptied field takes it back at once', () => {
  typing.typed('snow');
  typing.typed('');
  mock.timers.tick(500);
  assert.deepEqual(sent, [null]);
});

test('shows the plan and what is not known; half a word is no mistake', () => {
  typing.typed('snow with unicorns');
  const warnings = [{ code: 'unknown_words', words: ['unicorns'], message: 'Not known: unicorns.' }] as const;
  typing.show({ type: 'draft.preview', re: 'd', understood: true, plan: 'snowy mountains , day', warnings: [...warnings].map((one) => ({ ...one, words: [...one.words] })) });
  assert.match(line.textContent!, /^↵ Snowy mountains, day.* unicorns/);
  typing.show({ type: 'draft.preview', re: 'd', understood: false, plan: null, warnings: [] });
  assert.equal(line.textContent, '');
});

test('what was sent is no draft any more', () => {
  typing.typed('snow');
  typing.done();
  mock.timers.tick(500);
  typing.show({ type: 'draft.preview', re: 'd', understood: true, plan: 'late', warnings: [] });
  assert.deepEqual([sent, line.textContent], [[], '']);
});
