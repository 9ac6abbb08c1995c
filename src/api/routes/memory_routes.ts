import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { SegueError } from '../../protocol/errors.ts';
import { MemoryImport, MemoryView, TurnEdit } from '../../protocol/prompt_memory.ts';
import { editTurn, forgetTurn, importMemory, liveMemory } from '../../sessions/memory_changes.ts';
import type { ApiContext } from '../ApiContext.ts';
import { ERROR_RESPONSES, SessionPath, TurnPath } from '../route_schemas.ts';
import { TokenBucket } from '../TokenBucket.ts';

/** The largest export that a session can give: every turn with all its words, and what JSON makes of them. */
const MEMORY_BODY_LIMIT = 4 * 1024 * 1024;
/** Changes per session: each is written to disk and to the event log. */
const CHANGE_RATE = { burst: 20, perSecond: 5 } as const;

/** The prompt memory of a session: exported, imported, corrected. */
export function memoryRoutes(fastify: FastifyInstance, { registry, clock }: ApiContext): void {
  const app = fastify.withTypeProvider<TypeBoxTypeProvider>();
  const bucket = new TokenBucket(clock, CHANGE_RATE);
  const response = { 200: MemoryView, ...ERROR_RESPONSES };
  const drive = { config: { access: { session: 'drive' } } } as const;
  const changing = (id: string) => {
    const session = registry.get(id);
    const waitMs = bucket.take(id);
    if (waitMs > 0) throw new SegueError('rate_limited', 'too many changes of this memory', { retryAfterMs: waitMs });
    return session;
  };

  app.get('/v1/sessions/:id/memory', { config: { access: { session: 'watch' } }, schema: { summary: 'Export the prompt memory, also of a session that has ended and is kept', tags: ['memory'], params: SessionPath, response } }, ({ params }) => registry.memory(params.id));

  app.put('/v1/sessions/:id/memory', { ...drive, bodyLimit: MEMORY_BODY_LIMIT, schema: { summary: 'Replace the prompt memory; answers when the world is what it says was in force', tags: ['memory'], params: SessionPath, body: MemoryImport, response } }, async (request) => {
    const session = changing(request.params.id);
    await importMemory(session, request.body, callerOf(request));
    return liveMemory(session);
  });

  app.patch('/v1/sessions/:id/memory/turns/:turn', { ...drive, schema: { summary: 'Correct the words of a turn of the past', tags: ['memory'], params: TurnPath, body: TurnEdit, response } }, async (request) => {
    const session = changing(request.params.id);
    editTurn(session, request.params.turn, request.body, callerOf(request));
    return liveMemory(session);
  });

  app.delete('/v1/sessions/:id/memory/turns/:turn', { ...drive, schema: { summary: 'Forget a turn of the past', tags: ['memory'], params: TurnPath, response } }, async (request) => {
    const session = changing(request.params.id);
    forgetTurn(session, request.params.turn, callerOf(request));
    return liveMemory(session);
  });
}

/** For the event log: who changed it, as far as the server knows people. */
function callerOf({ principal }: FastifyRequest): string {
  return principal?.kind ?? 'public';
}
