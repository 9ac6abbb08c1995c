import { Type } from 'typebox';
import type { FastifyInstance } from 'fastify';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { ReloadedModel } from '../../protocol/rest.ts';
import type { ApiContext } from '../ApiContext.ts';
import { ERROR_RESPONSES } from '../route_schemas.ts';

/** What an operator does with the model that is served. */
export function modelRoutes(fastify: FastifyInstance, { registry, log }: ApiContext): void {
  const app = fastify.withTypeProvider<TypeBoxTypeProvider>();

  app.post(
    '/v1/models/:id/reload',
    {
      config: { access: 'key' },
      schema: {
        summary: 'Serve the weights that lie in the model’s directory now; live sessions go on with them',
        description: 'They are checked and loaded beside those that serve; then each live session goes on with them from the end of the chunk that it is in. What can’t be used is refused (model_not_usable), and the older weights serve on.',
        tags: ['discovery'],
        params: Type.Object({ id: Type.String({ minLength: 1, maxLength: 64 }) }),
        response: { 200: ReloadedModel, ...ERROR_RESPONSES },
      },
    },
    async (request) => {
      const { id } = request.params;
      const { weightsVersion, previous, sessions, heldMs } = await registry.weights.reload(id);
      const reloaded = { id, weightsVersion, previousWeightsVersion: previous, changed: weightsVersion !== previous, sessions, heldMs: Math.round(heldMs) };
      log.info(reloaded, 'model reloaded');
      return reloaded;
    },
  );
}
