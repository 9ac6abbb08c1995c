/**
 * Closing a connection whose sender still sends. A socket that is closed with unread data resets the connection, and the reset may overtake the
 * answer; so what still comes is read and dropped for a while after the answer (RFC 9112, section 9.6), by bytes and by time, and only then it is closed.
 */
import type { IncomingMessage } from 'node:http';
import { Readable, type Duplex } from 'node:stream';
import { SegueError } from '../protocol/errors.ts';

/** A client that reads while it writes has its answer long before; one that writes all first is let finish up to this. */
export const LINGER_BYTES = 16 * 1024 * 1024;
export const LINGER_MS = 5_000;

/** Reads and drops what comes; resolves when the sender has finished, or at the bounds. */
export function drain(stream: Readable | Duplex): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let bytes = 0;
  const watchdog = setTimeout(resolve, LINGER_MS);
  const onData = (chunk: Buffer): void => {
    bytes += chunk.byteLength;
    if (bytes > LINGER_BYTES) resolve();
  };
  stream.on('data', onData);
  for (const event of ['end', 'close', 'error']) stream.once(event, resolve);
  stream.resume();
  return promise.finally(() => {
    clearTimeout(watchdog);
    stream.off('data', onData);
    for (const event of ['end', 'close', 'error']) stream.off(event, resolve);
  });
}

/** A body that is sent at once and ends only when the request it answers has been read, or the bounds are reached: its connection is not closed before. */
export function lingeringBody(body: string, request: IncomingMessage): Readable {
  return Readable.from(
    (async function* () {
      yield Buffer.from(body, 'utf8');
      if (!request.complete) await drain(request);
    })(),
    { objectMode: false },
  );
}

/** Answers on a socket that no call belongs to, then lingers and closes. */
export function endLingering(socket: Duplex, head: readonly string[], body: string): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  socket.on('error', () => socket.destroy());
  socket.end([...head, 'content-type: application/json; charset=utf-8', `content-length: ${Buffer.byteLength(body)}`, 'connection: close', '', body].join('\r\n'));
  void drain(socket).then(() => socket.destroy());
}

const answered = new WeakSet<Duplex>();

/** What Node's parser can't or won't read gets an error in the API's form. Called again for what the parser says of data that is only drained. */
export function answerUnreadable(socket: Duplex, error: NodeJS.ErrnoException): void {
  if (answered.has(socket)) return;
  answered.add(socket);
  const [status, told] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', new SegueError('headers_too_large', 'the headers are too large')]
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', new SegueError('request_timeout', 'the call did not arrive in time')]
        : ['400 Bad Request', new SegueError('bad_request', 'this is not HTTP')];
  endLingering(socket, [`HTTP/1.1 ${status}`], JSON.stringify({ error: told.toBody() }));
}
