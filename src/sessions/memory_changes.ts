/** What the API does with a session's prompt memory: read as a whole, corrected, replaced. Every change is in the event log, by whom and of which turn, without the words. */
import { createHash } from 'node:crypto';
import { SegueError } from '../protocol/errors.ts';
import { MEMORY_VERSION, type InForce, type MemoryImport, type MemoryView, type TurnEdit } from '../protocol/prompt_memory.ts';
import type { SessionRequest } from '../protocol/channel.ts';
import { importedTurns, inForceOf, openingOf, type NumberedTurn, type Turn } from './memory_turn.ts';
import type { Session } from './Session.ts';
import { createId } from './session_ids.ts';

export function memoryView(session: string, turns: readonly NumberedTurn[]): MemoryView {
  const views = turns.map(({ ordinal, turn: { from90k: _, attributes, adapter, presented, ...rest } }) => ({
    turn: ordinal,
    ...rest,
    attributes: attributes === null ? null : { ...attributes },
    adapter: adapter === null ? null : { ...adapter },
    presented: presented === null ? null : { ...presented },
  }));
  return { version: MEMORY_VERSION, session, inForce: inForceOf(turns.map(({ turn }) => turn)), turns: views };
}

export function liveMemory({ id, memory }: Pick<Session, 'id' | 'memory'>): MemoryView {
  return memoryView(id, memory.numbered);
}

/** @param by who does it: `key`, `client`. @throws {SegueError} as {@link PromptMemory.edit}. */
export function editTurn({ memory, events }: Pick<Session, 'memory' | 'events'>, ordinal: number, words: TurnEdit, by: string): void {
  const before = memory.turns.find((turn) => turn.ordinal === ordinal);
  const digest = before === undefined ? '' : digestOf(before);
  memory.edit(ordinal, words, new Date().toISOString());
  events.append('memory.edited', { turn: ordinal, fields: Object.keys(words), by, before: digest });
}

/** @throws {SegueError} as {@link PromptMemory.forget}. */
export function forgetTurn({ memory, events }: Pick<Session, 'memory' | 'events'>, ordinal: number, by: string): void {
  const before = memory.turns.find((turn) => turn.ordinal === ordinal);
  memory.forget(ordinal);
  events.append('memory.deleted', { turn: ordinal, by, before: digestOf(before!) });
}

/**
 * Puts an import in the place of all that is remembered, once the world is what it says was in force: asked for by a redirect of its own, which is the turn
 * that goes on behind it. What can't be made leaves the memory as it was.
 * Rejects with what that redirect is refused or answered with.
 */
export async function importMemory(session: Session, body: MemoryImport, by: string): Promise<void> {
  const turns = importedTurns(body, new Date().toISOString());
  const { attributes, prompt, adapter } = openingOf(body, turns);
  const id = createId('req');
  const asks = attributes !== null || prompt !== null || adapter !== null;
  if (asks) {
    const wish: SessionRequest = { type: 'redirect', id, adapter, ...(attributes === null ? {} : { plan: attributes }), ...(prompt === null ? {} : { prompt }) };
    const answer = await session.request(wish, 'settled');
    if (answer.type === 'error') throw SegueError.from(answer.error);
  }
  session.memory.import(turns, asks ? id : null);
  session.events.append('memory.imported', { turns: turns.length, by, ...(body.session === undefined ? {} : { from: body.session }), ...(asks ? { request: id } : {}) });
}

/** What a session that is created with a memory begins with. @param prompt beside it: edits what was in force. */
export function seedOf(body: MemoryImport, prompt: string | undefined): { readonly turns: readonly Turn[]; readonly opening: InForce } {
  const turns = importedTurns(body, new Date().toISOString());
  const room = prompt === undefined ? undefined : 1_000 - prompt.length - 2;
  const opening = openingOf(body, turns, room);
  const words = [opening.prompt, prompt].filter((text) => text != null);
  return { turns, opening: { ...opening, prompt: words.length === 0 ? null : words.join(', ') } };
}

/** So that a copy that is held elsewhere can be compared, and the log doesn't repeat what was to be forgotten. */
function digestOf({ prompt, narration }: Pick<Turn, 'prompt' | 'narration'>): string {
  return createHash('sha256').update(JSON.stringify([prompt, narration])).digest('hex');
}
