import { Type } from 'typebox';
import type { FastifyInstance } from 'fastify';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import * as channel from '../../protocol/channel.ts';
import { ERRORS, ErrorBody } from '../../protocol/errors.ts';
import { SessionVoice } from '../../protocol/session_voice.ts';
import * as memory from '../../protocol/prompt_memory.ts';
import * as rest from '../../protocol/rest.ts';
import { AdapterOffer } from '../../protocol/session_adapter.ts';
import type { ApiContext } from '../ApiContext.ts';
import { ERROR_RESPONSES, SessionPath } from '../route_schemas.ts';

const ModelView = Type.Object({
  id: Type.String(),
  weightsVersion: Type.String(),
  format: Type.Object({ width: Type.Integer(), height: Type.Integer(), framesPerSecond: Type.Number(), audioSampleRate: Type.Integer() }),
  framesPerChunk: Type.Integer(),
  vocabulary: Type.Array(Type.String()),
  /** Styles that a session may ask for. */
  adapters: Type.Array(AdapterOffer),
});

const ProgramView = Type.Object({
  id: Type.String(),
  model: Type.String(),
  /** Its sessions make anew what their driver's camera sends. */
  takesVideo: Type.Boolean(),
  /** What interruption means in each of its loops. */
  interruption: Type.Record(Type.String(), Type.Object({ unit: Type.String(), interrupt: Type.String(), redirect: Type.String(), says: Type.String() })),
});

/** What is served here, and in which language: models, programs, the deployment card, traces, schemas. */
export function discoveryRoutes(fastify: FastifyInstance, { registry, card, programs }: ApiContext): void {
  const app = fastify.withTypeProvider<TypeBoxTypeProvider>();
  const { modelId: id, format, framesPerChunk, vocabulary, adapters = [] } = card;

  app.get('/v1/models', { config: { access: 'any' }, schema: { summary: 'Models', tags: ['discovery'], response: { 200: Type.Object({ models: Type.Array(ModelView) }), ...ERROR_RESPONSES } } }, async () => ({
    models: [{ id, weightsVersion: card.weightsVersion, format: { ...format }, framesPerChunk, vocabulary: [...vocabulary], adapters: adapters.map((adapter) => ({ ...adapter })) }],
  }));

  app.get('/v1/programs', { config: { access: 'any' }, schema: { summary: 'Realtime programs', tags: ['discovery'], response: { 200: Type.Object({ programs: Type.Array(ProgramView) }), ...ERROR_RESPONSES } } }, async () => ({
    programs: programs.map((program) => {
      const { takesVideo = false, interruption = {} } = card.programs?.find((offered) => offered.id === program) ?? {};
      return { id: program, model: id, takesVideo, interruption: { ...interruption } };
    }),
  }));

  app.get('/v1/card', { config: { access: 'any' }, schema: { summary: 'Deployment card: measured costs, capacity, fingerprint', tags: ['discovery'], response: { 200: Type.Unknown(), ...ERROR_RESPONSES } } }, async () => card);

  app.get('/v1/traces/:id', { config: { access: { session: 'watch' } }, schema: { summary: 'Step timeline of a session, for Perfetto or chrome://tracing', tags: ['discovery'], params: SessionPath, response: { 200: Type.Unknown(), ...ERROR_RESPONSES } } }, async (request, reply) => {
    const { id: session } = request.params;
    reply.header('content-disposition', `inline; filename="${session}.trace.json"`);
    return registry.trace(session).toChromeTrace(session);
  });

  const schemas = {
    protocol: channel.PROTOCOL_VERSION,
    errors: ERRORS,
    rest: { CreateSession: rest.CreateSession, CreatedSession: rest.CreatedSession, Session: rest.SessionView, SessionDescription: rest.SessionDescription, ConnectionAnswer: rest.ConnectionAnswer, TrickleCandidate: rest.TrickleCandidate, IceServers: rest.IceServers, Memory: memory.MemoryView, MemoryImport: memory.MemoryImport, TurnEdit: memory.TurnEdit, SessionVoice, Error: ErrorBody },
    channels: {
      control: { fromClient: channel.ControlMessage, fromServer: channel.ServerControlMessage },
      input: { fromClient: channel.InputMessage },
      state: { fromServer: channel.ServerStateMessage },
    },
  };
  app.get('/schema', { config: { access: 'public' }, schema: { summary: 'JSON Schemas of every message', tags: ['discovery'], response: { 200: Type.Unknown() } } }, async () => schemas);
  app.get('/openapi.json', { config: { access: 'public' }, schema: { hide: true } }, async () => fastify.swagger());
}
