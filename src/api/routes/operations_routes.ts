import { Type } from 'typebox';
import type { FastifyInstance } from 'fastify';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { SegueError } from '../../protocol/errors.ts';
import type { ApiContext } from '../ApiContext.ts';
import { ERROR_RESPONSES } from '../route_schemas.ts';

/** Probes and metrics, for whatever runs the server. */
export function operationsRoutes(fastify: FastifyInstance, { metrics, notReady }: ApiContext): void {
  const app = fastify.withTypeProvider<TypeBoxTypeProvider>();
  const status = Type.Object({ status: Type.Literal('ok') });

  app.get('/healthz', { config: { access: 'public' }, schema: { summary: 'The process answers', tags: ['operations'], response: { 200: status } } }, async () => ({ status: 'ok' as const }));

  app.get('/readyz', { config: { access: 'public' }, schema: { summary: 'New sessions are taken', tags: ['operations'], response: { 200: status, ...ERROR_RESPONSES } } }, async () => {
    const reason = notReady();
    if (reason !== null) throw new SegueError('draining', reason);
    return { status: 'ok' as const };
  });

  app.get('/metrics', { config: { access: 'public' }, schema: { summary: 'Prometheus metrics', tags: ['operations'], response: { 200: Type.String() } } }, async (_request, reply) => {
    reply.type(metrics.contentType);
    return metrics.render();
  });
}
