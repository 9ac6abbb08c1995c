import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseChannelMessage } from '../../src/protocol/channel_parser.ts';
import { SessionRig } from './session_rig.ts';

function send(rig: SessionRig, sessionId: string, connectionId: string, message: object): void {
  rig.media.emit({ type: 'channel.message', sessionId, connectionId, channel: 'control', text: JSON.stringify(message), fencedEpoch: null, held: null });
}

const drafts = (rig: SessionRig) => rig.engine.sent.filter((message) => message.type === 'session.draft');
const previews = (rig: SessionRig, connectionId: string) => rig.media.texts(connectionId).filter(({ type }) => type === 'draft.preview');

test('a draft goes to the engine, and its preview to whoever types it alone', async () => {
  const rig = new SessionRig();
  const { session, connectionId } = await rig.join();
  const other = await rig.connect(session, ['watch']);
  send(rig, session.id, connectionId, { type: 'draft', id: 'd1', prompt: ' snowy mountains with unicorns ' });
  await rig.settle();
  assert.deepEqual(drafts(rig), [{ type: 'session.draft', sessionId: session.id, draftId: 'd1', prompt: 'snowy mountains with unicorns', seamless: false }]);
  const warnings = [{ code: 'unknown_words', words: ['unicorns'], message: 'Not known: unicorns.' }];
  assert.deepEqual(previews(rig, connectionId), [{ type: 'draft.preview', re: 'd1', understood: true, plan: null, warnings }]);
  rig.engine.emit({ type: 'draft.preview', sessionId: session.id, draftId: 'd1', plan: 'snowy mountains, day, clear sky', warnings: [] });
  await rig.settle();
  assert.deepEqual(previews(rig, connectionId)[1], { type: 'draft.preview', re: 'd1', understood: true, plan: 'snowy mountains, day, clear sky', warnings: [] });
  assert.deepEqual(previews(rig, other), []);
});

test('a preview of an older draft comes too late', async () => {
  const rig = new SessionRig();
  const { session, connectionId } = await rig.join();
  send(rig, session.id, connectionId, { type: 'draft', id: 'd1', prompt: 'snowy' });
  send(rig, session.id, connectionId, { type: 'draft', id: 'd2', prompt: 'snowy mountains', seamless: true });
  rig.engine.emit({ type: 'draft.preview', sessionId: session.id, draftId: 'd1', plan: 'old', warnings: [] });
  await rig.settle();
  assert.deepEqual(previews(rig, connectionId).map(({ re }) => re), ['d1', 'd2']);
  assert.deepEqual(drafts(rig).map(({ seamless }) => seamless), [false, true]);
});

test('what is not understood is said, and drops what was there; nothing, too', async () => {
  const rig = new SessionRig();
  const { session, connectionId } = await rig.join();
  send(rig, session.id, connectionId, { type: 'draft', id: 'd1', prompt: 'qwertz' });
  send(rig, session.id, connectionId, { type: 'draft', id: 'd2', prompt: null });
  send(rig, session.id, connectionId, { type: 'draft', id: 'd3', prompt: '   ' });
  await rig.settle();
  assert.deepEqual(drafts(rig).map(({ prompt }) => prompt), [null, null, null]);
  assert.deepEqual(previews(rig, connectionId), [{ type: 'draft.preview', re: 'd1', understood: false, plan: null, warnings: [] }]);
});

test('a draft is no request: no answer, no epoch, no turn to remember', async () => {
  const rig = new SessionRig();
  const { session, connectionId } = await rig.join();
  const { epoch } = session.words;
  const turns = session.memory.turns.length;
  send(rig, session.id, connectionId, { type: 'draft', id: 'd1', prompt: 'snowy' });
  await rig.settle();
  assert.equal(session.words.epoch, epoch);
  assert.equal(session.memory.turns.length, turns);
  assert.ok(!rig.types(connectionId).some((type) => type === 'accepted' || type === 'error'));
});

test('who may only watch drafts nothing', async () => {
  const rig = new SessionRig();
  const { session } = await rig.join();
  const watcher = await rig.connect(session, ['watch']);
  send(rig, session.id, watcher, { type: 'draft', id: 'd1', prompt: 'snowy' });
  await rig.settle();
  assert.deepEqual(drafts(rig), []);
  assert.equal((rig.media.texts(watcher).at(-1) as { error: { code: string } }).error.code, 'forbidden');
});

test('the wire’s rules for a draft', () => {
  const parse = (message: object) => parseChannelMessage('control', JSON.stringify(message));
  assert.ok('message' in parse({ type: 'draft', id: 'a', prompt: 'x', seamless: true }));
  assert.ok('message' in parse({ type: 'draft', id: 'a', prompt: '' }));
  assert.ok('message' in parse({ type: 'draft', id: 'a', prompt: null }));
  assert.ok('error' in parse({ type: 'draft', id: 'a' }));
  assert.ok('error' in parse({ type: 'draft', id: 'a', prompt: 'x'.repeat(1001) }));
  assert.ok('error' in parse({ type: 'draft', id: 'a', prompt: 'x', presented: 1 }));
  assert.ok('error' in parseChannelMessage('input', JSON.stringify({ type: 'draft', id: 'a', prompt: 'x' })));
});
