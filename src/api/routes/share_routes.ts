import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { SegueError } from '../../protocol/errors.ts';
import { CreatedReplay, Share, ShareRequest } from '../../protocol/rest.ts';
import type { ApiContext } from '../ApiContext.ts';
import { ERROR_RESPONSES, SessionPath } from '../route_schemas.ts';
import { TokenBucket } from '../TokenBucket.ts';

const DEFAULT_SHARE_MS = 7 * 86_400_000;
/** Per address: each replay is a session. */
const REPLAY_RATE = { burst: 10, perSecond: 0.2 } as const;

/** Links to what was seen, and the sessions that play it. */
export function shareRoutes(fastify: FastifyInstance, { registry, tokens, clock, card }: ApiContext): void {
  const app = fastify.withTypeProvider<TypeBoxTypeProvider>();
  const bucket = new TokenBucket(clock, REPLAY_RATE);

  app.post('/v1/sessions/:id/shares', { config: { access: { session: 'drive' } }, preValidation: emptyBody, schema: { summary: 'Make a link that plays what was seen; deleting the session revokes it', tags: ['shares'], params: SessionPath, body: ShareRequest, response: { 201: Share, ...ERROR_RESPONSES } } }, async ({ params, body }, reply) => {
    const { expiresInMs = DEFAULT_SHARE_MS, ...limits } = body;
    if (limits.from90k !== undefined && limits.to90k !== undefined && limits.from90k >= limits.to90k) throw new SegueError('bad_request', 'from90k is before to90k', { param: 'to90k' });
    const { from90k, to90k } = await registry.shareable(params.id, limits);
    const { token, expiresAt } = await tokens.issueShare({ sessionId: params.id, from90k, to90k }, expiresInMs);
    return reply.code(201).send({ url: `/#share=${token}`, token, expiresAt, from90k, to90k });
  });

  app.post('/v1/replays', { config: { access: 'share' }, schema: { summary: 'Play what a link shares: a session of the program `replay`, which is paused, resumed and rewound like any other', tags: ['shares'], response: { 201: CreatedReplay, ...ERROR_RESPONSES } } }, async (request, reply) => {
    const { principal } = request;
    if (principal?.kind !== 'share') throw new SegueError('forbidden', 'this call needs the token of a share link');
    const waitMs = bucket.take(request.ip);
    if (waitMs > 0) throw new SegueError('rate_limited', 'too many replays from this address', { retryAfterMs: waitMs });
    const session = await registry.replay(principal.sessionId, principal);
    const { from90k, to90k, gaps } = session.plays!;
    // Of the replay, which is this viewer's own; of what it plays it may do nothing.
    const { token, expiresAt } = await tokens.issue({ sessionId: session.id, roles: ['drive', 'watch'] });
    return reply.code(201).send({ id: session.id, state: session.state, clientToken: token, expiresAt, estimate: { costPerSecond: card.deviceSecondsPerSecond }, from90k, to90k, ...(gaps === undefined ? {} : { gaps: gaps.map((gap) => ({ ...gap })) }) });
  });
}

async function emptyBody(request: FastifyRequest): Promise<void> {
  request.body ??= {};
}
