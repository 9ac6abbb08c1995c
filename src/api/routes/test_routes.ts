import { Type } from 'typebox';
import type { FastifyInstance } from 'fastify';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { ApiContext } from '../ApiContext.ts';
import { BlockBody, ERROR_RESPONSES, FaultBody } from '../route_schemas.ts';

const Done = Type.Object({ type: Type.Literal('done') });

/** Test mode only: what no client can do and a test must, to show that fences and neighbours hold. */
export function testRoutes(fastify: FastifyInstance, { registry, clock }: ApiContext): void {
  const app = fastify.withTypeProvider<TypeBoxTypeProvider>();

  app.post('/v1/test/block', { config: { access: 'public' }, schema: { summary: 'Block the control thread', tags: ['test'], body: BlockBody, response: { 200: Done, ...ERROR_RESPONSES } } }, async (request, reply) => {
    // After the answer is out, so that a caller knows from when on the thread stands still.
    reply.raw.once('finish', () => {
      const until = clock.now() + request.body.ms;
      while (clock.now() < until); // a real stall of this thread, which no timer would be
    });
    return { type: 'done' as const };
  });

  app.post('/v1/test/fault', { config: { access: 'public' }, schema: { summary: "Make a session's next unit fail", tags: ['test'], body: FaultBody, response: { 200: Done, ...ERROR_RESPONSES } } }, async (request) => {
    registry.get(request.body.session).injectFault(request.body.fault);
    return { type: 'done' as const };
  });
}
