import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import sharp from 'sharp';
import { CARD } from '../sessions/scripted_links.ts';
import { FRAME_90K, madeChunk } from '../sessions/made_chunk.ts';
import { KEY, ServerRig, type Created } from './server_rig.ts';

describe('presented frames by REST', () => {
  let rig: ServerRig;
  let session: Created;
  let watcher: string;
  const path = (more: string): string => `/v1/sessions/${session.id}/frames/${more}`;
  const file = (more: string, headers: Record<string, string> = {}) => fetch(rig.url + path(more), { headers: { authorization: `Bearer ${watcher}`, ...headers } });

  before(async () => {
    rig = await ServerRig.start();
    session = await rig.create();
    await rig.join(session);
    const { body } = await rig.call('POST', `/v1/sessions/${session.id}/tokens`, { body: { roles: ['watch'] } });
    watcher = body['clientToken'] as unknown as string;
    rig.engine.seen = madeChunk(0);
    rig.media.emit({ type: 'media.position', sessionId: session.id, epoch: 0, sent90k: 2 * FRAME_90K, presented90k: 2 * FRAME_90K });
  });
  after(async () => assert.equal(await rig.close(), true));

  it('a watcher reads what made one', async () => {
    const { status, body } = await rig.call('GET', path('7500/receipt'), { token: watcher });
    assert.equal(status, 200, JSON.stringify(body));
    assert.deepEqual([body['chunk'], body['frameInChunk'], body['requests']], [0, 1, { started: [], active: ['r1'], completed: [] }]);
  });

  it('a picture comes pixel for pixel, or small, or as JPEG', async () => {
    const { width, height } = CARD.format;
    const whole = await file('0');
    assert.deepEqual([whole.status, whole.headers.get('content-type')], [200, 'image/png']);
    const raw = await sharp(Buffer.from(await whole.arrayBuffer())).removeAlpha().raw().toBuffer();
    assert.deepEqual([raw.length, new Set(raw)], [width * height * 3, new Set([64])]);
    const small = await file('7500?width=16&format=jpeg');
    assert.equal(small.headers.get('content-type'), 'image/jpeg');
    const { width: smaller, format } = await sharp(Buffer.from(await small.arrayBuffer())).metadata();
    assert.deepEqual([smaller, format], [16, 'jpeg']);
  });

  it('one that is as it was is not sent again', async () => {
    const first = await file('0?width=16');
    const etag = first.headers.get('etag')!;
    const decodes = rig.engine.sent.filter(({ type }) => type === 'frame.decode').length;
    assert.equal((await file('0?width=16', { 'if-none-match': etag })).status, 304);
    assert.equal(rig.engine.sent.filter(({ type }) => type === 'frame.decode').length, decodes, 'nor decoded');
    assert.equal((await file('0?width=20', { 'if-none-match': etag })).status, 200);
  });

  it('refuses by the table', async () => {
    const other = await rig.create();
    for (const [more, token, code, status] of [
      ['15000', watcher, 'not_presented', 409],
      ['15000/receipt', watcher, 'not_presented', 409],
      ['-1', watcher, 'bad_request', 400],
      ['x', watcher, 'bad_request', 400],
      ['0?width=4', watcher, 'bad_request', 400],
      ['0?format=gif', watcher, 'bad_request', 400],
      ['0', other.clientToken, 'forbidden', 403],
      ['0', null, 'unauthorized', 401],
    ] as const) {
      const answer = await rig.call('GET', path(more), { token });
      assert.deepEqual([answer.code, answer.status], [code, status], more);
    }
    const missing = await rig.call('GET', '/v1/sessions/ses_none/frames/0', { token: KEY });
    assert.equal(missing.code, 'session_not_found');
  });

  it('who asks for too many too fast is told to wait', async () => {
    let refused = 0;
    for (let round = 0; round < 20 && refused === 0; round++) {
      const answers = await Promise.all(Array.from({ length: 90 }, () => rig.call('GET', path('0/receipt'), { token: watcher })));
      refused = answers.filter(({ code }) => code === 'rate_limited').length;
    }
    assert.ok(refused > 0);
  });
});
