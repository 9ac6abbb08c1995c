import type { FastifyInstance } from 'fastify';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { SegueError } from '../../protocol/errors.ts';
import { CreatedSession, CreateSession, WaitingPlace } from '../../protocol/rest.ts';
import type { ApiContext } from '../ApiContext.ts';
import { ERROR_RESPONSES } from '../route_schemas.ts';
import { TokenBucket } from '../TokenBucket.ts';
import { createOrWait, waitingHeaders } from './session_routes.ts';

/** The page makes a picture small before it sends it. */
const DEMO_BODY_LIMIT = 512 * 1024;

/** Anybody may ask for a session here: for the demo page. Limited per address; tries with a ticket are free, for waiting is what they are for. */
export function demoRoutes(fastify: FastifyInstance, context: ApiContext): void {
  const { config, clock } = context;
  const app = fastify.withTypeProvider<TypeBoxTypeProvider>();
  const bucket = new TokenBucket(clock, { burst: config.demo.perMinute, perSecond: config.demo.perMinute / 60 });

  app.post('/v1/demo/sessions', { bodyLimit: DEMO_BODY_LIMIT, config: { access: 'public' }, schema: { summary: 'Create a session for the demo page', tags: ['demo'], body: CreateSession, response: { 201: CreatedSession, 202: WaitingPlace, ...ERROR_RESPONSES } } }, async (request, reply) => {
    const { ticket } = request.body;
    if (ticket === undefined || context.registry.queue.find(ticket) === null) {
      const waitMs = bucket.take(request.ip);
      if (waitMs > 0) throw new SegueError('rate_limited', 'too many demo sessions from this address', { retryAfterMs: waitMs });
    }
    // Nobody else has the token, so whoever leaves the page leaves for good.
    const answer = await createOrWait(context, request, { tenant: 'demo', endsOnLeave: true });
    return 'id' in answer ? reply.code(201).send(answer) : reply.code(202).headers(waitingHeaders(answer)).send(answer);
  });
}

/** `loopback`: only where nobody but this machine can call. */
export function demoEnabled({ demo, host }: ApiContext['config']): boolean {
  return demo.enabled === 'always' || (demo.enabled === 'loopback' && isLoopback(host));
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\./.test(host);
}
