import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { SegueError } from '../../protocol/errors.ts';
import { ConnectionAnswer, IceServers, SessionDescription, TrickleCandidate } from '../../protocol/rest.ts';
import { ROLES, type Role } from '../../sessions/ports.ts';
import type { ApiContext } from '../ApiContext.ts';
import { iceServers } from '../ice_servers.ts';
import { ConnectionPath, ERROR_RESPONSES, SessionPath } from '../route_schemas.ts';

/** WebRTC signalling with the client token: offer, trickle, rejoin, leave. */
export function connectionRoutes(fastify: FastifyInstance, { registry, config }: ApiContext): void {
  const app = fastify.withTypeProvider<TypeBoxTypeProvider>();
  const options = { config: { access: { session: 'watch' } } } as const;

  app.post('/v1/sessions/:id/connections', { ...options, schema: { summary: 'Connect: SDP offer, answered', tags: ['connections'], params: SessionPath, body: SessionDescription, response: { 201: ConnectionAnswer, ...ERROR_RESPONSES } } }, async (request, reply) => {
    const session = await registry.reach(request.params.id);
    const { id, sdp } = await session.connect(offerOf(request.body), rolesOf(request));
    return reply.code(201).header('location', `/v1/sessions/${session.id}/connections/${id}`).send({ id, type: 'answer' as const, sdp });
  });

  app.put('/v1/sessions/:id/connections/:connectionId', { ...options, schema: { summary: 'Rejoin: the old connection is replaced once this offer is answered', tags: ['connections'], params: ConnectionPath, body: SessionDescription, response: { 200: ConnectionAnswer, ...ERROR_RESPONSES } } }, async (request) => {
    const { id, connectionId } = request.params;
    const answer = await (await registry.reach(id)).connect(offerOf(request.body), rolesOf(request), connectionId);
    return { id: answer.id, type: 'answer' as const, sdp: answer.sdp };
  });

  app.patch('/v1/sessions/:id/connections/:connectionId', { ...options, schema: { summary: 'Trickle a candidate; null: no more', tags: ['connections'], params: ConnectionPath, body: TrickleCandidate, response: { 204: Type.Null(), ...ERROR_RESPONSES } } }, async (request, reply) => {
    const { id, connectionId } = request.params;
    registry.get(id).candidate(connectionId, request.body.candidate);
    return reply.code(204).send(null);
  });

  app.delete('/v1/sessions/:id/connections/:connectionId', { ...options, schema: { summary: 'Leave', tags: ['connections'], params: ConnectionPath, response: { 204: Type.Null(), ...ERROR_RESPONSES } } }, async (request, reply) => {
    const { id, connectionId } = request.params;
    registry.get(id).disconnect(connectionId, 'the client left');
    return reply.code(204).send(null);
  });

  app.get('/v1/ice-servers', { config: { access: 'any' }, schema: { summary: 'STUN and TURN servers, with credentials that expire', tags: ['connections'], response: { 200: IceServers, ...ERROR_RESPONSES } } }, async (request) => {
    const { principal } = request;
    return { iceServers: iceServers(config.ice, principal?.kind === 'client' ? principal.sessionId : 'api', Date.now()) };
  });
}

function offerOf({ type, sdp }: { readonly type: string; readonly sdp: string }): string {
  if (type !== 'offer') throw new SegueError('bad_sdp', 'an offer is needed', { param: 'type' });
  if (!sdp.startsWith('v=0')) throw new SegueError('bad_sdp', 'this is not SDP', { param: 'sdp' });
  return sdp;
}

/** A back end that connects for itself may do all. */
function rolesOf({ principal }: FastifyRequest): readonly Role[] {
  return principal?.kind === 'client' ? principal.roles : ROLES;
}
