import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Config } from './config_schema.ts';

/** A browser asks again after this, seconds: a changed list is in force soon, and a page that polls doesn't ask twice a call. */
const PREFLIGHT_MAX_AGE_S = 600;
/** What the API reads besides what every page may send. */
const ALLOWED_HEADERS = 'authorization, content-type, last-event-id, prefer';
/** What a page may read besides what every page may. */
const EXPOSED_HEADERS = 'location, preference-applied, retry-after';

/**
 * Lets web pages of the origins in `cors.origins` call the API from a browser (Fetch Standard, section 3.2). Callers show bearer tokens and the
 * server sets no cookies, so credentials are never allowed; other origins get no header, and their browsers keep the answers from them.
 */
export function installCors(app: FastifyInstance, { origins }: Config['cors'], methodsOf: (path: string) => readonly string[]): void {
  if (origins.length === 0) return;
  const allowed = new Set(origins);
  app.addHook('onRequest', async (request, reply) => {
    // A cache must not hand one origin's answer to another.
    reply.header('vary', 'origin');
    const { origin } = request.headers;
    if (origin === undefined || !(allowed.has('*') || allowed.has(origin))) return;
    reply.header('access-control-allow-origin', origin);
    reply.header('access-control-expose-headers', EXPOSED_HEADERS);
    if (isPreflight(request)) return answerPreflight(request, reply, methodsOf);
  });
}

function isPreflight({ method, headers }: FastifyRequest): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
}

/** Nobody has shown who they are yet: a preflight says what may be asked, and nothing of what is there. */
function answerPreflight(request: FastifyRequest, reply: FastifyReply, methodsOf: (path: string) => readonly string[]): FastifyReply | undefined {
  const methods = methodsOf(request.url.split('?')[0] ?? '');
  if (methods.length === 0) return undefined;
  return reply
    .code(204)
    .header('access-control-allow-methods', methods.join(', '))
    .header('access-control-allow-headers', ALLOWED_HEADERS)
    .header('access-control-max-age', String(PREFLIGHT_MAX_AGE_S))
    .send();
}
