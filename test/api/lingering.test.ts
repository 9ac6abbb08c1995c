/** Whoever sends too much reads why: the answer is never lost to a reset. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { WebSocket } from 'ws';
import { LINGER_BYTES } from '../../src/api/lingering_close.ts';
import { KEY, ServerRig } from './server_rig.ts';

const EIGHT_MIB = 8 * 2 ** 20;
/** Whether a reset overtakes the answer is a matter of luck. */
const TIMES = 20;

describe('a sender of too much', () => {
  let rig: ServerRig;
  before(async () => {
    rig = await ServerRig.start();
  });
  after(async () => assert.equal(await rig.close(), true));

  const port = (): number => Number(new URL(rig.url).port);

  /** Uploads with a client that writes all before it reads, as fast as it can. */
  function upload(headers: Record<string, string>, bytes: number): Promise<{ readonly status: number; readonly code: string }> {
    return new Promise((resolve, reject) => {
      const sending = request(`${rig.url}/v1/sessions`, { method: 'POST', agent: false, headers: { 'content-type': 'application/json', ...headers } }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => (text += part));
        response.on('error', reject);
        response.on('end', () => resolve({ status: response.statusCode ?? 0, code: (JSON.parse(text) as { error: { code: string } }).error.code }));
      });
      sending.on('error', reject);
      sending.end(Buffer.alloc(bytes, 'x'));
    });
  }

  /** Writes all of it, only then reads all there is to read. */
  async function writeThenRead(socket: Socket, data: Buffer): Promise<string> {
    socket.pause();
    await new Promise<void>((resolve, reject) => socket.write(data, (error) => (error ? reject(error) : resolve())));
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.resume();
    await once(socket, 'close');
    return Buffer.concat(chunks).toString();
  }

  it('of a body of 8 MiB reads 413, every time', async () => {
    for (let time = 0; time < TIMES; time++) assert.deepEqual(await upload({ authorization: `Bearer ${KEY}`, 'content-length': String(EIGHT_MIB) }, EIGHT_MIB), { status: 413, code: 'payload_too_large' });
  });

  it('of a chunked body of 8 MiB reads 413, every time', async () => {
    for (let time = 0; time < TIMES; time++) assert.deepEqual(await upload({ authorization: `Bearer ${KEY}`, 'transfer-encoding': 'chunked' }, EIGHT_MIB), { status: 413, code: 'payload_too_large' });
  });

  it('without a key reads 401 and not a reset', async () => {
    for (let time = 0; time < 5; time++) assert.deepEqual(await upload({ 'content-length': String(EIGHT_MIB) }, EIGHT_MIB), { status: 401, code: 'unauthorized' });
  });

  it('that writes all before it reads finds the answer still there', async () => {
    const socket = connect(port(), '127.0.0.1');
    const head = `POST /v1/sessions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${KEY}\r\ncontent-type: application/json\r\ncontent-length: ${EIGHT_MIB}\r\nconnection: close\r\n\r\n`;
    assert.match(await writeThenRead(socket, Buffer.concat([Buffer.from(head), Buffer.alloc(EIGHT_MIB, 'x')])), /^HTTP\/1.1 413 .*"code":"payload_too_large"/s);
  });

  it('of headers reads 431', async () => {
    for (let time = 0; time < 5; time++) {
      const socket = connect(port(), '127.0.0.1');
      const head = `GET /healthz HTTP/1.1\r\nhost: x\r\nx-long: ${'x'.repeat(1024 * 1024)}\r\n\r\n`;
      const answer = await writeThenRead(socket, Buffer.from(head));
      assert.match(answer, /^HTTP\/1.1 431 .*"code":"headers_too_large"/s);
      assert.equal(answer.match(/HTTP\/1.1/g)?.length, 1, 'answered once');
    }
  });

  it('without end is cut off', async () => {
    const socket = connect(port(), '127.0.0.1');
    let sent = 0;
    let answer = '';
    socket.on('data', (chunk: Buffer) => (answer += chunk.toString()));
    socket.on('error', () => undefined);
    socket.write(`POST /v1/sessions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${KEY}\r\ncontent-type: application/json\r\ncontent-length: ${2 ** 40}\r\n\r\n`);
    const chunk = Buffer.alloc(64 * 1024, 'x');
    const closed = new Promise((resolve) => socket.once('close', resolve));
    const more = (): void => {
      while (!socket.destroyed && socket.write(chunk)) sent += chunk.length;
    };
    socket.on('drain', more);
    more();
    await closed;
    assert.match(answer, /^HTTP\/1.1 413 /);
    assert.ok(sent < 4 * LINGER_BYTES, `${sent} bytes were taken`);
  });

  it('on a WebSocket reads 1009, every time, however much is on its way', async () => {
    const created = await rig.create();
    for (let time = 0; time < TIMES; time++) {
      const socket = new WebSocket(`${rig.url.replace('http', 'ws')}/v1/sessions/${created.id}/stream?token=${created.clientToken}`);
      await once(socket, 'open');
      const closed = once(socket, 'close') as Promise<[number]>;
      socket.send('x'.repeat(EIGHT_MIB));
      const [code] = await closed;
      assert.equal(code, 1009);
    }
  });
});
