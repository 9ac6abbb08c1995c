import { randomInt } from 'node:crypto';
import { SegueError } from '../protocol/errors.ts';
import type { MediaTime90k } from '../streams/media_time.ts';
import { voiceInForce } from '../protocol/session_voice.ts';
import { PromptMemory } from './PromptMemory.ts';
import type { Session } from './Session.ts';
import type { SessionArchive } from './SessionArchive.ts';
import type { SessionFork, SessionOptions } from './session_options.ts';
import { readReturn } from './session_return.ts';

/** What a session is made with that goes on with another's past. */
export type ForkOptions = Omit<Session['origin'], 'limits'> & { readonly limits: Partial<Session['origin']['limits']> } & Required<Pick<SessionOptions, 'forked'>>;

export interface SessionForksParts {
  readonly archive: SessionArchive | null;
  readonly live: (sessionId: string) => Session | undefined;
  /** @throws {SegueError} why there is no such session. */
  readonly find: (sessionId: string) => Session;
}

/**
 * Sessions with the past of others. A live one shares what it has in memory; what isn't there, or nobody is live with, is read from where it is kept. Noise is a function
 * of seed and lineage: the past has the parent's seed, the future a lineage that no other fork of it, and no rewind, has.
 */
export class SessionForks {
  readonly #parts: SessionForksParts;

  constructor(parts: SessionForksParts) {
    this.#parts = parts;
  }

  /** @param media90k undefined: what is presented. @param open opens a session; rejects with what it is refused with. */
  async open(id: string, media90k: MediaTime90k | undefined, open: (options: ForkOptions) => Promise<Session>): Promise<Session> {
    const parent = this.#parts.live(id);
    const lineage = randomInt(FIRST_LINEAGE, MAX_LINEAGE);
    if (parent === undefined) return open(await this.#kept(id, media90k, lineage));
    const { origin, memory } = parent;
    const to90k = Math.min(media90k ?? Infinity, parent.presented90k);
    const forked: SessionFork = { from: id, to90k, lineage, turnsAt: (at90k) => memory.upTo(at90k) };
    try {
      return await open({ ...origin, forked });
    } catch (error) {
      // What is made of an incoming video is in memory only.
      if (!(error instanceof SegueError) || error.code !== 'not_kept' || this.#parts.archive === null || origin.transform !== null) throw error;
      return open({ ...origin, forked: { ...forked, story: await this.#parts.archive.story(id, to90k, true) } });
    }
  }

  async #kept(id: string, media90k: MediaTime90k | undefined, lineage: number): Promise<ForkOptions> {
    const { archive, find } = this.#parts;
    const world = (await archive?.load(id)) ?? null;
    if (archive === null || world === null) {
      // Says why there is none.
      find(id);
      throw new SegueError('session_not_found', `no session ${id.slice(0, 64)}`);
    }
    const { turns, options, position90k } = readReturn(world);
    const { program, seed, prompt, image } = world.session;
    const { tenant, stamp, endsOnLeave, idleMs, orphanMs, budget = {}, plan = null, voice = voiceInForce() } = options;
    const memory = new PromptMemory();
    memory.restore(turns);
    const to90k = Math.min(media90k ?? Infinity, position90k);
    const story = await archive.story(id, to90k, true);
    return {
      program,
      seed,
      prompt,
      image: image instanceof SharedArrayBuffer ? image : null,
      adapter: null,
      plan,
      transform: null,
      tenant,
      stamp,
      voice,
      endsOnLeave,
      limits: { idleMs, orphanMs, ...budget },
      forked: { from: id, to90k, lineage, turnsAt: (at90k) => memory.upTo(at90k), story },
    };
  }
}

/** A session's own futures count from 0. */
const FIRST_LINEAGE = 2 ** 30;
const MAX_LINEAGE = 2 ** 31 - 1;
