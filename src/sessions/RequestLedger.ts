import type { SessionRequest, ServerControlMessage } from '../protocol/channel.ts';

/** Answers to a request. `accepted` comes first, one of the others last; an `error` may be the only one. */
export type RequestAnswer = Extract<ServerControlMessage, { type: 'accepted' | 'applied' | 'forked' | 'superseded' | 'error' }>;

/** The newest of a kind replaces an older one that is not applied yet. `hold` is `release` too, as `flow` is `pause` and `resume`. */
export type RequestKind = 'interrupt' | 'rewind' | 'fork' | SceneKind | 'flow' | 'hold' | 'other';
/** Ways to ask for another scene. */
export type SceneKind = 'redirect' | 'cut' | 'blend';

export interface LedgerEntry {
  readonly id: string;
  readonly kind: RequestKind;
  readonly epoch: number;
  /** Monotonic ms. */
  readonly acceptedMs: number;
  /** Connection to answer to; null: only those who wait for the id by REST. */
  connectionId: string | null;
  readonly answers: RequestAnswer[];
  /** Connections whose `control` copy has arrived: a fencing request comes on `input` too, and is not answered once per copy. */
  readonly controlCopies: Set<string | null>;
  done: boolean;
}

/** Ids remembered; the oldest settled one is forgotten beyond that. */
export const MAX_REMEMBERED = 1_024;
/** Requests without their last answer: more than a person can press. */
export const MAX_OPEN = 64;

export function requestKind(type: SessionRequest['type'] | 'ping' | 'hello'): RequestKind {
  switch (type) {
    case 'interrupt':
    case 'redirect':
    case 'cut':
    case 'blend':
    case 'rewind':
    case 'fork':
      return type;
    case 'hold':
    case 'release':
      return 'hold';
    case 'pause':
    case 'resume':
      return 'flow';
    default:
      return 'other';
  }
}

export function isSceneKind(kind: RequestKind): kind is SceneKind {
  return kind === 'redirect' || kind === 'cut' || kind === 'blend';
}

/** Requests of which somebody who was told that they were applied must not find them gone after a restart. */
export function outlivesProcess(kind: RequestKind): boolean {
  return kind === 'rewind' || isSceneKind(kind);
}

/** Whether an older request is void once a newer one is accepted. An interrupt and a rewind void the scene that was asked for before them; each fork is one of its own; otherwise the newest wins. */
export function supersedes(newer: RequestKind, older: RequestKind): boolean {
  if (newer === 'fork') return false;
  return newer === older || (isSceneKind(older) && (isSceneKind(newer) || newer === 'interrupt' || newer === 'rewind'));
}

/** Every request of a session by id: answered once, and the same again when the id comes again. */
export class RequestLedger {
  readonly #entries = new Map<string, LedgerEntry>();
  #open = 0;

  get(id: string): LedgerEntry | undefined {
    return this.#entries.get(id);
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Whether another request can be taken in. */
  get canAdd(): boolean {
    return this.#open < MAX_OPEN;
  }

  /** Throws when the id is known or {@link canAdd} is false: both are the caller's to check first. */
  add({ id, kind, epoch, acceptedMs, connectionId }: Pick<LedgerEntry, 'id' | 'kind' | 'epoch' | 'acceptedMs' | 'connectionId'>): LedgerEntry {
    if (this.#entries.has(id)) throw new Error(`request ${id} is known`);
    if (!this.canAdd) throw new Error(`${MAX_OPEN} requests are open`);
    const entry: LedgerEntry = { id, kind, epoch, acceptedMs, connectionId, answers: [], controlCopies: new Set(), done: false };
    this.#entries.set(id, entry);
    this.#open += 1;
    this.#forget();
    return entry;
  }

  /** An entry as it was kept. Only before the first {@link add}. */
  restore(kept: Pick<LedgerEntry, 'id' | 'kind' | 'epoch' | 'answers' | 'done'>, acceptedMs: number): LedgerEntry {
    const entry: LedgerEntry = { ...kept, answers: [...kept.answers], acceptedMs, connectionId: null, controlCopies: new Set() };
    this.#entries.set(entry.id, entry);
    if (!entry.done) this.#open += 1;
    this.#forget();
    return entry;
  }

  /** Notes an answer. False where the request has had its last one, or this one: then it must not be sent. */
  answer(entry: LedgerEntry, answer: RequestAnswer): boolean {
    if (entry.done || entry.answers.some(({ type }) => type === answer.type)) return false;
    entry.answers.push(answer);
    if (answer.type !== 'accepted') {
      entry.done = true;
      this.#open -= 1;
    }
    return true;
  }

  /** Requests without their last answer, oldest first. */
  open(): LedgerEntry[] {
    return [...this.#entries.values()].filter((entry) => !entry.done);
  }

  #forget(): void {
    if (this.#entries.size <= MAX_REMEMBERED) return;
    // Open entries are at most MAX_OPEN, so a settled one is always found.
    for (const [id, entry] of this.#entries) {
      if (!entry.done) continue;
      this.#entries.delete(id);
      return;
    }
  }
}
