import type { OutgoingHttpHeaders } from 'node:http';
import type { FastifyInstance } from 'fastify';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { SegueError } from '../../protocol/errors.ts';
import type { SessionEvent } from '../../sessions/SessionEventLog.ts';
import type { ApiContext } from '../ApiContext.ts';
import { ERROR_RESPONSES, EventsQuery, SessionPath } from '../route_schemas.ts';

/** A reader who has this much unread is cut off; it comes back with `Last-Event-ID` and misses nothing. */
const MAX_UNREAD_BYTES = 512 * 1024;
/** Proxies close what is silent for 30 to 60 s. */
const HEARTBEAT_MS = 15_000;

/** Server-sent events of a session (HTML Living Standard, section 9.2), resumable within the ring that the session keeps. */
export function eventRoutes(fastify: FastifyInstance, { registry, log }: ApiContext): void {
  const app = fastify.withTypeProvider<TypeBoxTypeProvider>();
  const open = new Set<() => void>();
  fastify.addHook('preClose', async () => {
    for (const end of [...open]) end();
  });

  app.get(
    '/v1/sessions/:id/events',
    { config: { access: { session: 'watch' }, queryToken: true }, schema: { summary: 'Server-sent events, resumable with Last-Event-ID', tags: ['sessions'], params: SessionPath, querystring: EventsQuery, response: ERROR_RESPONSES } },
    async (request, reply) => {
      const { id } = request.params;
      const events = registry.events(id);
      const header = request.headers['last-event-id'];
      const since = header === undefined ? (request.query.since ?? 0) : Number(header);
      if (!Number.isInteger(since) || since < 0) throw new SegueError('bad_request', 'Last-Event-ID must be the id of an event', { param: 'Last-Event-ID' });
      const stream = reply.raw;
      let heartbeat: ReturnType<typeof setInterval> | null = null;
      let unsubscribe: (() => void) | null = null;
      const end = (): void => {
        open.delete(end);
        unsubscribe?.();
        if (heartbeat !== null) clearInterval(heartbeat);
        stream.end();
      };
      const write = (text: string): void => {
        if (stream.destroyed || stream.writableEnded) return;
        if (stream.writableLength > MAX_UNREAD_BYTES) {
          log.warn({ sessionId: id }, 'a reader of events does not read');
          stream.destroy();
          return;
        }
        stream.write(text);
      };
      unsubscribe = events.ended ? null : events.subscribe((event) => write(frame(id, event)), end);
      if (unsubscribe === null && !events.ended) throw new SegueError('rate_limited', 'too many readers of this session', { retryAfterMs: 5_000 });

      reply.hijack();
      stream.writeHead(200, { ...(reply.getHeaders() as OutgoingHttpHeaders), 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store', 'x-accel-buffering': 'no', connection: 'keep-alive' });
      stream.on('close', end);
      stream.on('error', (error) => log.debug({ err: error, sessionId: id }, 'event stream broke'));
      const { events: missedAndKept, missed } = events.since(since);
      write('retry: 1000\n\n');
      if (missed > 0) write(`event: events.missed\ndata: ${JSON.stringify({ session: id, missed })}\n\n`);
      for (const event of missedAndKept) write(frame(id, event));
      if (events.ended) return end();
      open.add(end);
      heartbeat = setInterval(() => write(': still here\n\n'), HEARTBEAT_MS);
      heartbeat.unref();
    },
  );
}

function frame(session: string, { sequence, type, at, data }: SessionEvent): string {
  return `id: ${sequence}\nevent: ${type}\ndata: ${JSON.stringify({ ...data, session, sequence, at, type })}\n\n`;
}
