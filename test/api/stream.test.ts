import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, describe, it } from 'node:test';
import { WebSocket } from 'ws';
import { STREAM_HEADER_BYTES } from '../../src/api/StreamSocket.ts';
import { ServerRig, type Created } from './server_rig.ts';

/** A client of the stream that keeps all it gets. */
class Client {
  readonly texts: { channel: string; message: Record<string, unknown> }[] = [];
  readonly media: Buffer[] = [];
  readonly socket: WebSocket;
  closed: { code: number; reason: string } | null = null;

  constructor(url: string, headers: Record<string, string> = {}) {
    this.socket = new WebSocket(url.replace('http', 'ws'), { headers });
    this.socket.on('message', (data, binary) => (binary ? this.media.push(data as Buffer) : this.texts.push(JSON.parse((data as Buffer).toString()) as { channel: string; message: Record<string, unknown> })));
    this.socket.on('close', (code, reason) => (this.closed = { code, reason: reason.toString() }));
    this.socket.on('error', () => undefined);
  }

  async open(): Promise<this> {
    await once(this.socket, 'open');
    return this;
  }

  send(channel: string, message: unknown): void {
    this.socket.send(JSON.stringify({ channel, message }));
  }

  async until<T>(read: () => T | undefined): Promise<T> {
    for (const deadline = performance.now() + 5_000; performance.now() < deadline; ) {
      const value = read();
      if (value !== undefined) return value;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    throw new Error(`nothing of the kind; got ${JSON.stringify(this.texts)}`);
  }

  message(type: string): Promise<Record<string, unknown>> {
    return this.until(() => this.texts.find(({ message }) => message['type'] === type)?.message);
  }
}

describe('WebSocket stream', () => {
  let rig: ServerRig;
  let session: Created;

  before(async () => (rig = await ServerRig.start({}, 32)));
  after(async () => assert.equal(await rig.close(), true));

  async function connect(): Promise<{ client: Client; connectionId: string; relay: (kind: 'video' | 'audio', epoch: number, key: boolean) => void }> {
    session = await rig.create();
    const client = await new Client(`${rig.url}/v1/sessions/${session.id}/stream?token=${session.clientToken}`).open();
    const connectionId = await client.until(() => rig.media.sent.findLast((message) => message.type === 'connection.relay' && message.sessionId === session.id)).then((message) => (message as { connectionId: string }).connectionId);
    const { id } = session;
    return { client, connectionId, relay: (kind, epoch, key) => rig.media.emit({ type: 'relay.media', sessionId: id, connectionId, kind, epoch, rtp: 0xfffffff0, key, bytes: new Uint8Array([1, 2, 3]) }) };
  }

  it('speaks the protocol of the data channels', async () => {
    const { client } = await connect();
    client.send('control', { type: 'hello', id: 'h1', protocol: 1 });
    assert.equal((await client.message('ready'))['session'], session.id);
    client.send('control', { type: 'interrupt', id: 'i1' });
    assert.equal((await client.message('accepted'))['epoch'], 1);
    await client.message('applied');
    client.socket.close(1000);
  });

  it('takes a microphone and a camera behind the same header, and says what it can’t take of them', async () => {
    const { client, connectionId } = await connect();
    const frame = (kind: number, bytes: number): Buffer => {
      const data = Buffer.alloc(STREAM_HEADER_BYTES + bytes, 7);
      data.writeUInt8(kind, 0);
      return data;
    };
    const errors = (): unknown[] => client.texts.filter(({ message }) => message['type'] === 'error').map(({ message }) => (message['error'] as { code: string }).code);
    client.socket.send(frame(2, 640));
    const heard = await client.until(() => rig.media.sent.find((message) => message.type === 'connection.voice' && message.connectionId === connectionId));
    assert.deepEqual((heard as { data: Uint8Array }).data, new Uint8Array(640).fill(7));
    for (const data of [frame(9, 4), frame(2, 0), frame(2, 641), frame(2, 6402), frame(0, 100), frame(0, 100)]) client.socket.send(data);
    await client.until(() => (errors().length >= 5 ? true : undefined));
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.deepEqual(errors(), ['bad_request', 'bad_request', 'bad_request', 'payload_too_large', 'conflict'], 'the last is said once');
    const watcher = (await rig.call('POST', `/v1/sessions/${session.id}/tokens`, { body: { roles: ['watch'] } })).body['clientToken'] as unknown as string;
    const looker = await new Client(`${rig.url}/v1/sessions/${session.id}/stream?token=${watcher}`).open();
    looker.socket.send(frame(2, 640));
    assert.equal(((await looker.message('error'))['error'] as { code: string }).code, 'forbidden');
    looker.socket.close(1000);
    client.socket.close(1000);
  });

  it('carries media behind a header of 16 bytes', async () => {
    const { client, relay } = await connect();
    relay('video', 0, true);
    relay('audio', 0, true);
    await client.until(() => (client.media.length === 2 ? true : undefined));
    const [video, audio] = client.media;
    assert.deepEqual([video!.readUInt8(0), video!.readUInt8(1), video!.readUInt32BE(4), video!.readUInt32BE(8)], [0, 1, 0, 0xfffffff0]);
    assert.deepEqual([...video!.subarray(STREAM_HEADER_BYTES)], [1, 2, 3]);
    assert.equal(audio!.readUInt8(0), 1);
    client.socket.close(1000);
  });

  it('sends nothing of an older epoch, and goes on from a keyframe that it asks for', async () => {
    const { client, connectionId, relay } = await connect();
    relay('video', 0, true);
    rig.media.words.get(session.id)!.raiseEpoch();
    relay('video', 0, false);
    relay('audio', 0, true);
    relay('video', 1, false); // built on the one that was dropped
    relay('audio', 1, true);
    relay('video', 1, true);
    relay('video', 1, false);
    await client.until(() => (client.media.length >= 4 ? true : undefined));
    assert.deepEqual(client.media.map((frame) => [frame.readUInt8(0), frame.readUInt8(1), frame.readUInt32BE(4)]), [[0, 1, 0], [1, 1, 1], [0, 1, 1], [0, 0, 1]]);
    assert.equal(rig.media.sent.filter((message) => message.type === 'connection.keyframe' && message.connectionId === connectionId).length, 1);
    client.socket.close(1000);
  });

  it('answers what it cannot read with the right code, and goes on', async () => {
    const { client } = await connect();
    const cases = [['{', 'bad_json'], ['null', 'bad_request'], ['{"channel":"nowhere","message":{}}', 'bad_request'], ['{"channel":"control","message":{"type":"dance","id":"x"}}', 'bad_request'], [JSON.stringify({ channel: 'control', message: { type: 'ping', id: 'x'.repeat(20_000) } }), 'payload_too_large']] as const;
    for (const [text, code] of cases) {
      const before = client.texts.length;
      client.socket.send(text);
      const answer = await client.until(() => client.texts.slice(before).find(({ message }) => message['type'] === 'error'));
      assert.equal((answer.message['error'] as { code: string }).code, code, text.slice(0, 60));
    }
    client.send('control', { type: 'ping', id: 'p1' });
    assert.equal((await client.message('accepted'))['re'], 'p1');
    client.socket.close(1000);
  });

  it('a message of 8 MiB closes this socket and no other', async () => {
    const { client } = await connect();
    const { client: other } = await connect();
    client.socket.send('x'.repeat(8 * 1024 * 1024));
    await client.until(() => client.closed ?? undefined);
    assert.equal(client.closed?.code, 1009);
    other.send('control', { type: 'ping', id: 'p1' });
    await other.message('accepted');
    other.socket.close(1000);
  });

  it('a flood closes the socket that sends it', async () => {
    const { client } = await connect();
    for (let count = 0; count < 2_000; count++) client.send('control', { type: 'ping', id: `p${count}` });
    await client.until(() => client.closed ?? undefined);
    assert.equal(client.closed?.code, 1008);
  });

  it('is refused without, with a wrong and with another session’s token', async () => {
    const { client } = await connect();
    const mine = session;
    const other = await rig.create();
    for (const [query, status] of [['', 401], ['?token=nonsense', 401], [`?token=${other.clientToken}`, 403]] as const) {
      const socket = new WebSocket(`${rig.url.replace('http', 'ws')}/v1/sessions/${mine.id}/stream${query}`);
      socket.on('error', () => undefined);
      const [, response] = (await once(socket, 'unexpected-response')) as [unknown, { statusCode: number; resume(): void }];
      assert.equal(response.statusCode, status, query);
      response.resume();
    }
    client.socket.close(1000);
  });

  it('says why before it closes', async () => {
    const { client } = await connect();
    await rig.call('DELETE', `/v1/sessions/${session.id}`);
    await client.until(() => client.closed ?? undefined);
    assert.deepEqual(client.texts.at(-1)?.message, { type: 'closed', reason: 'closed by the API' });
    assert.deepEqual(client.closed, { code: 1000, reason: 'closed by the API' });
  });

  it('the newest driver replaces the one before', async () => {
    const { client } = await connect();
    const again = await new Client(`${rig.url}/v1/sessions/${session.id}/stream?token=${session.clientToken}`).open();
    await client.until(() => client.closed ?? undefined);
    assert.match(client.closed?.reason ?? '', /replaced/);
    again.send('control', { type: 'ping', id: 'p1' });
    await again.message('accepted');
    assert.equal((await rig.call('GET', `/v1/sessions/${session.id}`)).body['state'], 'active');
    again.socket.close(1000);
  });

  it('at the end of the server: goaway, then closed, then a clean close', async () => {
    const short = await ServerRig.start();
    const created = await short.create();
    const client = await new Client(`${short.url}/v1/sessions/${created.id}/stream?token=${created.clientToken}`).open();
    client.send('control', { type: 'hello', id: 'h', protocol: 1 });
    await client.message('ready');
    const closing = short.close();
    await client.message('goaway');
    assert.equal((await short.call('GET', '/readyz', { token: null })).code, 'draining');
    assert.equal((await short.call('POST', '/v1/sessions', { body: {} })).code, 'draining');
    assert.equal(await closing, true);
    await client.until(() => client.closed ?? undefined);
    const types = client.texts.map(({ message }) => message['type']);
    assert.ok(types.indexOf('goaway') < types.indexOf('closed'), types.join());
    assert.equal(client.closed?.code, 1000);
    assert.deepEqual([short.engine.sent.at(-1)?.type, short.media.sent.at(-1)?.type], ['engine.drain', 'media.drain']);
    await assert.rejects(fetch(`${short.url}/healthz`));
  });

  it('a thread that dies: sessions are told why, and the server ends', async () => {
    const short = await ServerRig.start();
    const created = await short.create();
    const client = await new Client(`${short.url}/v1/sessions/${created.id}/stream?token=${created.clientToken}`).open();
    client.send('control', { type: 'hello', id: 'h', protocol: 1 });
    await client.message('ready');
    short.engine.crash(new Error('boom'));
    assert.equal((await short.server.crashed).message, 'boom');
    await client.until(() => client.closed ?? undefined);
    const error = client.texts.map(({ message }) => message).find(({ type }) => type === 'error');
    assert.equal((error?.['error'] as { code: string }).code, 'engine_unavailable');
    assert.equal(await short.close(), false);
  });
});
