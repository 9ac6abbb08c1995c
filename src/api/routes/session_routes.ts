import { Type } from 'typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { Accepted, Applied, Forked, Superseded, type SessionRequest } from '../../protocol/channel.ts';
import { SegueError } from '../../protocol/errors.ts';
import { CreatedSession, CreateSession, ForkedSession, SessionView, StoryBranches, WaitingPlace } from '../../protocol/rest.ts';
import { MAX_IMAGE_BYTES } from '../../protocol/session_image.ts';
import { ROLES, type Role } from '../../sessions/ports.ts';
import type { SessionWish } from '../../sessions/SessionRegistry.ts';
import { createId } from '../../sessions/session_ids.ts';
import type { ApiContext } from '../ApiContext.ts';
import { BlendBody, CutBody, ERROR_RESPONSES, FlowBody, ForkBody, InputBody, InterruptBody, RedirectBody, RewindBody, SessionPath, TokenAnswer, TokenRequest, WaitQuery } from '../route_schemas.ts';
import { TokenBucket } from '../TokenBucket.ts';

/** Requests by REST, per session: well under what the media thread takes from one sender, so that it never refuses one unheard. */
const REQUEST_RATE = { burst: 20, perSecond: 10 } as const;

/** Where the engine names no time. */
const DEFAULT_RETRY_MS = 1_000;

/** A picture at most {@link MAX_IMAGE_BYTES} large, as base64, and the rest of the body. */
const IMAGE_BODY_LIMIT = Math.ceil(MAX_IMAGE_BYTES / 3) * 4 + 64 * 1024;

const Answer = Type.Union([Accepted, Applied, Forked, Superseded]);

/** Creates a session and the token for whoever plays it. */
async function createSession({ registry, tokens, card, config, images }: ApiContext, body: CreateSession, more: Pick<SessionWish, 'tenant' | 'endsOnLeave'>): Promise<CreatedSession> {
  if (body.stamp === true && !config.test.enabled) throw new SegueError('not_found', 'stamp exists in test mode only', { param: 'stamp' });
  const { image, ...wish } = body;
  const session = await registry.create({ ...wish, ...more, ...(image === undefined ? {} : { image: await images.read(image) }) });
  const { token, expiresAt } = await tokens.issue({ sessionId: session.id, roles: ROLES });
  const { promptWarnings } = session;
  return {
    id: session.id,
    state: session.state,
    clientToken: token,
    expiresAt,
    estimate: { costPerSecond: card.deviceSecondsPerSecond },
    ...(promptWarnings.length === 0 ? {} : { warnings: [...promptWarnings] }),
  };
}

/**
 * While all places are taken, whoever sends `Prefer: respond-async` (RFC 7240) is given their place in line instead of an error: for a page that waits, waiting is
 * none. Others are told `at_capacity`. Shared with the demo route.
 */
export async function createOrWait(context: ApiContext, request: FastifyRequest<{ Body: CreateSession }>, more: Pick<SessionWish, 'tenant' | 'endsOnLeave'>): Promise<CreatedSession | WaitingPlace> {
  try {
    return await createSession(context, request.body, more);
  } catch (error) {
    if (!(error instanceof SegueError) || error.code !== 'at_capacity' || !prefersToWait(request)) throw error;
    const { ticket, position, estimateMs, retryAfterMs = DEFAULT_RETRY_MS } = error.details;
    return { ...(ticket === undefined ? {} : { ticket }), ...(position === undefined ? {} : { position }), ...(estimateMs === undefined ? {} : { estimateMs }), retryAfterMs };
  }
}

/** Headers of a 202 that tells a place. */
export function waitingHeaders({ retryAfterMs }: WaitingPlace): Record<string, string> {
  return { 'preference-applied': 'respond-async', 'retry-after': String(Math.ceil(retryAfterMs / 1000)) };
}

function prefersToWait({ headers: { prefer } }: FastifyRequest): boolean {
  return [prefer ?? []].flat().some((list) => list.split(',').some((preference) => preference.split(/[;=]/)[0]!.trim().toLowerCase() === 'respond-async'));
}

/** `/v1/sessions` and everything that is asked of a session by REST. */
export function sessionRoutes(fastify: FastifyInstance, context: ApiContext): void {
  const app = fastify.withTypeProvider<TypeBoxTypeProvider>();
  const { registry, tokens, clock } = context;
  const bucket = new TokenBucket(clock, REQUEST_RATE);

  app.post('/v1/sessions', { bodyLimit: IMAGE_BODY_LIMIT, config: { access: 'key' }, schema: { summary: 'Create a session', tags: ['sessions'], body: CreateSession, response: { 201: CreatedSession, 202: WaitingPlace, ...ERROR_RESPONSES } } }, async (request, reply) => {
    const answer = await createOrWait(context, request, { tenant: 'api' });
    return 'id' in answer ? reply.code(201).header('location', `/v1/sessions/${answer.id}`).send(answer) : reply.code(202).headers(waitingHeaders(answer)).send(answer);
  });

  app.get('/v1/sessions', { config: { access: 'key' }, schema: { summary: 'List sessions, live and lately ended', tags: ['sessions'], response: { 200: Type.Object({ sessions: Type.Array(SessionView) }), ...ERROR_RESPONSES } } }, async () => ({
    sessions: [...registry.views],
  }));

  app.get('/v1/sessions/:id', { config: { access: { session: 'watch' } }, schema: { summary: 'Read a session', tags: ['sessions'], params: SessionPath, response: { 200: SessionView, ...ERROR_RESPONSES } } }, async (request) => registry.viewWhole(request.params.id));

  app.get('/v1/sessions/:id/branches', { config: { access: { session: 'watch' } }, schema: { summary: 'Where the story was gone back in: its futures', tags: ['sessions'], params: SessionPath, response: { 200: StoryBranches, ...ERROR_RESPONSES } } }, async ({ params }) => ({
    branches: (await registry.branches(params.id)).map(({ branch, parent, from90k, left90k, requestId: re }) => ({ branch, parent, from90k, left90k, re })),
  }));

  app.delete('/v1/sessions/:id', { config: { access: { session: 'drive' } }, schema: { summary: 'Close a session, and delete what is kept of it', tags: ['sessions'], params: SessionPath, response: { 200: SessionView, ...ERROR_RESPONSES } } }, async (request) => {
    return registry.remove(request.params.id, 'closed by the API');
  });

  app.post('/v1/sessions/:id/tokens', { config: { access: { session: 'watch' } }, schema: { summary: 'Make a client token, with no more roles than the caller has', tags: ['sessions'], params: SessionPath, body: TokenRequest, response: { 201: TokenAnswer, ...ERROR_RESPONSES } } }, async (request, reply) => {
    const session = registry.get(request.params.id);
    const { principal } = request;
    const held: readonly Role[] = principal?.kind === 'client' ? principal.roles : ROLES;
    const roles = request.body.roles ?? held;
    const excess = roles.find((role) => !held.includes(role));
    if (excess !== undefined) throw new SegueError('forbidden', `the caller has no role ${excess}`, { param: 'roles' });
    const { token, expiresAt } = await tokens.issue({ sessionId: session.id, roles });
    return reply.code(201).send({ clientToken: token, expiresAt });
  });

  app.post('/v1/sessions/:id/fork', { config: { access: { session: 'drive' } }, preValidation: emptyBodyIsNoRequest, schema: { summary: 'Make another session with the same past, up to a moment of it; also of one that has ended and is kept', tags: ['sessions'], params: SessionPath, body: ForkBody, response: { 201: ForkedSession, ...ERROR_RESPONSES } } }, async ({ params, body, principal }, reply) => {
    const waitMs = bucket.take(params.id);
    if (waitMs > 0) throw new SegueError('rate_limited', 'too many requests for this session', { retryAfterMs: waitMs });
    const { session, from } = await registry.fork(params.id, body);
    const { token, expiresAt } = await tokens.issue({ sessionId: session.id, roles: principal?.kind === 'client' ? principal.roles : ROLES });
    return reply.code(201).header('location', `/v1/sessions/${session.id}`).send({ id: session.id, state: session.state, clientToken: token, expiresAt, estimate: { costPerSecond: context.card.deviceSecondsPerSecond }, from });
  });

  const submit = async (id: string, message: SessionRequest, wait: 'accepted' | 'applied' | undefined) => {
    const session = registry.get(id);
    const waitMs = bucket.take(id);
    if (waitMs > 0) throw new SegueError('rate_limited', 'too many requests for this session', { retryAfterMs: waitMs });
    const answer = await session.request(message, wait === 'applied' ? 'settled' : 'accepted');
    if (answer.type === 'error') throw SegueError.from(answer.error);
    return answer;
  };
  const schema = { tags: ['requests'], params: SessionPath, querystring: WaitQuery, response: { 200: Answer, ...ERROR_RESPONSES } };
  const options = { config: { access: { session: 'drive' } }, preValidation: emptyBodyIsNoRequest } as const;

  app.post('/v1/sessions/:id/interrupt', { ...options, schema: { ...schema, summary: 'Freeze at once', body: InterruptBody } }, async ({ params, body, query }) => submit(params.id, { ...body, type: 'interrupt', id: body.id ?? createId('req') }, query.wait));
  app.post('/v1/sessions/:id/redirect', { ...options, schema: { ...schema, summary: 'Ask for something else', body: RedirectBody } }, async ({ params, body, query }) => submit(params.id, { ...body, type: 'redirect', id: body.id ?? createId('req') }, query.wait));
  app.post('/v1/sessions/:id/cut', { ...options, schema: { ...schema, summary: 'Ask for something else, as a new shot', body: CutBody } }, async ({ params, body, query }) => submit(params.id, { ...body, type: 'cut', id: body.id ?? createId('req') }, query.wait));
  app.post('/v1/sessions/:id/blend', { ...options, schema: { ...schema, summary: 'Go over into something else by degrees', body: BlendBody } }, async ({ params, body, query }) => submit(params.id, { ...body, type: 'blend', id: body.id ?? createId('req') }, query.wait));
  app.post('/v1/sessions/:id/hold', { ...options, schema: { ...schema, summary: 'Stop for a moment, losing nothing: perhaps an interruption', body: FlowBody } }, async ({ params, body, query }) => submit(params.id, { type: 'hold', id: body.id ?? createId('req') }, query.wait));
  app.post('/v1/sessions/:id/release', { ...options, schema: { ...schema, summary: 'Go on exactly where a hold stopped', body: FlowBody } }, async ({ params, body, query }) => submit(params.id, { type: 'release', id: body.id ?? createId('req') }, query.wait));
  app.post('/v1/sessions/:id/rewind', { ...options, schema: { ...schema, summary: 'Go back to a moment of the story, and on from there as another future', body: RewindBody } }, async ({ params, body, query }) => submit(params.id, { ...body, type: 'rewind', id: body.id ?? createId('req') }, query.wait));
  app.post('/v1/sessions/:id/pause', { ...options, schema: { ...schema, summary: 'Pause', body: FlowBody } }, async ({ params, body, query }) => submit(params.id, { type: 'pause', id: body.id ?? createId('req') }, query.wait));
  app.post('/v1/sessions/:id/resume', { ...options, schema: { ...schema, summary: 'Go on after a pause', body: FlowBody } }, async ({ params, body, query }) => submit(params.id, { type: 'resume', id: body.id ?? createId('req') }, query.wait));

  app.post('/v1/sessions/:id/inputs', { ...options, schema: { ...schema, response: { 200: Answer, 202: Type.Object({ type: Type.Literal('taken') }), ...ERROR_RESPONSES }, summary: 'Push text (a redirect) or a held action', body: InputBody } }, async ({ params, body, query }, reply) => {
    if (body.type === 'text') {
      const { id, text, seamless, adapter } = body;
      return submit(params.id, { type: 'redirect', id: id ?? createId('req'), prompt: text, ...(adapter === undefined ? {} : { adapter }), ...(seamless === undefined ? {} : { seamless }) }, query.wait);
    }
    registry.get(params.id).inject(null, 'input', JSON.stringify(body));
    return reply.code(202).send({ type: 'taken' as const });
  });
}

/** Requests without parameters may come without a body. */
async function emptyBodyIsNoRequest(request: FastifyRequest): Promise<void> {
  request.body ??= {};
}
