import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { SegueError, type ErrorCode } from '../protocol/errors.ts';
import { schemaFault } from '../protocol/schema_fault.ts';
import { lingeringBody } from './lingering_close.ts';

/** fastify's own codes → ours. Anything else is decided by its status. */
const CODES: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['payload_too_large', 'the body is larger than this call takes'],
  FST_ERR_CTP_EMPTY_JSON_BODY: ['bad_json', 'the body is empty'],
  FST_ERR_CTP_INVALID_JSON_BODY: ['bad_json', 'the body is not JSON'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'the body must be application/json'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['bad_request', 'Content-Length does not fit the body'],
};

/** What a client is told of any error, by the one table. */
export function toSegueError(error: unknown): SegueError {
  if (error instanceof SegueError) return error;
  const { code, statusCode, validation, validationContext, message } = error as Partial<FastifyError> & { readonly validationContext?: string };
  if (validation) {
    const fault = schemaFault(validation);
    const where = validationContext === 'body' || validationContext === undefined ? '' : `${validationContext}: `;
    return new SegueError('bad_request', `${where}${fault.message}`, fault.param === '' ? {} : { param: fault.param });
  }
  const known = code === undefined ? undefined : CODES[code];
  if (known) return new SegueError(known[0], known[1], { cause: error });
  if (statusCode === 415) return new SegueError('unsupported_media_type', 'the body must be application/json', { cause: error });
  if (statusCode === 413) return new SegueError('payload_too_large', 'the body is larger than this call takes', { cause: error });
  if (statusCode === 404) return new SegueError('not_found', 'nothing here', { cause: error });
  if (error instanceof SyntaxError) return new SegueError('bad_json', 'the body is not JSON', { cause: error });
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) return new SegueError('bad_request', message ?? 'the call could not be understood', { cause: error });
  return new SegueError('internal', 'something went wrong on the server', { cause: error });
}

export function sendError(reply: FastifyReply, error: SegueError): FastifyReply {
  const body = error.toBody();
  if (body.retryAfterMs !== undefined) reply.header('retry-after', String(Math.ceil(body.retryAfterMs / 1000)));
  if (error.code === 'unauthorized' || error.code === 'token_expired') reply.header('www-authenticate', 'Bearer');
  reply.code(error.status).type('application/json; charset=utf-8');
  const { raw } = reply.request;
  if (raw.complete) return reply.send({ error: body });
  // The sender still sends: if its connection were closed now, it might never read why.
  const text = JSON.stringify({ error: body });
  return reply.header('content-length', Buffer.byteLength(text)).send(lingeringBody(text, raw));
}

/** Which methods a path has, by the routes that are registered after this. */
export function collectMethods(app: FastifyInstance): (path: string) => readonly string[] {
  const routes: { readonly pattern: RegExp; readonly method: string }[] = [];
  app.addHook('onRoute', ({ url, method }) => {
    // The static page's catch-all is no path of the API.
    if (url.includes('*')) return;
    const pattern = new RegExp(`^${url.split('/').map((part) => (part.startsWith(':') ? '[^/]+' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))).join('/')}/?$`);
    for (const one of Array.isArray(method) ? method : [method]) routes.push({ pattern, method: one });
  });
  return (path) => [...new Set(routes.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method))];
}

/** Every error in one form, whoever raised it; unknown paths 404, known paths with another method 405. */
export function installErrorHandlers(app: FastifyInstance, methodsOf: (path: string) => readonly string[]): void {
  app.setErrorHandler((error, request, reply) => {
    const told = toSegueError(error);
    if (told.status >= 500 && told.code !== 'at_capacity' && told.code !== 'draining') request.log.error({ err: error, route: request.routeOptions.url }, 'call failed');
    return sendError(reply, told);
  });
  app.setNotFoundHandler((request: FastifyRequest, reply: FastifyReply) => {
    const path = request.url.split('?')[0] ?? '';
    const allowed = methodsOf(path);
    if (allowed.length === 0) return sendError(reply, new SegueError('not_found', `nothing at ${path.slice(0, 128)}`));
    reply.header('allow', allowed.join(', '));
    return sendError(reply, new SegueError('method_not_allowed', `${request.method} is not possible here; ${allowed.join(', ')} is`));
  });
}
