import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import sharp from 'sharp';
import { MAX_IMAGE_BYTES } from '../../src/protocol/session_image.ts';
import type { ControlToEngine } from '../../src/streams/messages.ts';
import { CARD } from '../sessions/scripted_links.ts';
import { ServerRig } from './server_rig.ts';

type Opening = Extract<ControlToEngine, { type: 'session.open' }>;

describe('a session that starts from a picture', () => {
  let rig: ServerRig;
  let picture: { mimeType: string; data: string };

  before(async () => {
    rig = await ServerRig.start({ demo: { enabled: 'always', perMinute: 100 } });
    const png = await sharp({ create: { width: 640, height: 480, channels: 3, background: '#336699' } }).png().toBuffer();
    picture = { mimeType: 'image/png', data: png.toString('base64') };
  });
  after(async () => assert.equal(await rig.close(), true));

  const opening = (id: unknown) => rig.engine.sent.find((message): message is Opening => message.type === 'session.open' && message.sessionId === id)!;

  it('hands the engine its pixels, in the size of the model and in shared memory', async () => {
    const { status, body } = await rig.call('POST', '/v1/sessions', { body: { image: picture, prompt: 'desert' } });
    assert.equal(status, 201);
    const { image, prompt } = opening(body['id']);
    assert.ok(image instanceof SharedArrayBuffer);
    assert.equal(image.byteLength, CARD.format.width * CARD.format.height * 3);
    assert.deepEqual([...new Uint8Array(image).subarray(0, 3)], [0x33, 0x66, 0x99]);
    assert.equal(prompt, 'desert');
    await rig.call('DELETE', `/v1/sessions/${body['id'] as unknown as string}`);
  });

  it('is refused by the one table, and nothing is opened', async () => {
    const opened = rig.engine.sent.filter(({ type }) => type === 'session.open').length;
    const cases: readonly (readonly [name: string, image: unknown, status: number, code: string, param?: string])[] = [
      ['no object', picture.data, 400, 'bad_request', 'image'],
      ['no data', { mimeType: 'image/png' }, 400, 'bad_request', 'image.data'],
      ['an unknown key', { ...picture, url: 'https://example.com' }, 400, 'bad_request', 'image.url'],
      ['another type', { ...picture, mimeType: 'image/gif' }, 415, 'unsupported_media_type', 'image.mimeType'],
      ['not base64', { ...picture, data: '***' }, 400, 'bad_image', 'image.data'],
      ['broken', { ...picture, data: Buffer.from('no picture').toString('base64') }, 400, 'bad_image', 'image.data'],
      ['too large', { ...picture, data: Buffer.alloc(MAX_IMAGE_BYTES + 3).toString('base64') }, 413, 'payload_too_large', 'image.data'],
      ['larger than a body may be', { ...picture, data: 'A'.repeat(6 * 1024 * 1024) }, 413, 'payload_too_large'],
    ];
    for (const [name, image, status, code, param] of cases) {
      const answer = await rig.call('POST', '/v1/sessions', { body: { image } });
      assert.deepEqual([name, answer.status, answer.code, (answer.body['error'] as unknown as { param?: string }).param], [name, status, code, param]);
    }
    assert.equal(rig.engine.sent.filter(({ type }) => type === 'session.open').length, opened);
  });

  it('is open to the demo page too, for what the page sends and no more', async () => {
    const { status, body } = await rig.call('POST', '/v1/demo/sessions', { body: { image: picture }, token: null });
    assert.equal(status, 201);
    assert.ok(opening(body['id']).image !== null);
    const large = await rig.call('POST', '/v1/demo/sessions', { body: { image: { ...picture, data: 'A'.repeat(600 * 1024) } }, token: null });
    assert.deepEqual([large.status, large.code], [413, 'payload_too_large']);
  });

  it('is described', async () => {
    const { body } = await rig.call('GET', '/openapi.json', { token: null });
    const text = JSON.stringify((body as unknown as { paths: Record<string, unknown> }).paths['/v1/sessions']);
    assert.match(text, /"image":\{.*mimeType.*image\/webp/);
  });
});
