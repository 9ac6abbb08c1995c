import type { ClientErrorCode, ErrorBody } from './messages.ts';

/** An error with a stable code. `body` is the server's own, where it came from there. */
export class ClientError extends Error {
  override readonly name = 'ClientError';
  readonly code: ClientErrorCode;
  readonly body: ErrorBody | null;

  constructor(code: ClientErrorCode, message: string, body: ErrorBody | null = null, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.body = body;
  }

  static from(body: ErrorBody): ClientError {
    return new ClientError(body.code, body.message, body);
  }
}
