import type { AdapterInForce } from '../protocol/session_adapter.ts';
import type { MediaTime90k } from '../streams/media_time.ts';

/** One thing that was asked for, and what the model made of it. */
export interface Turn {
  /** Null: the opening, which nobody asked for by a request. */
  readonly requestId: string | null;
  readonly prompt: string | null;
  /** Adapter that it was asked for with, or that was left as it was. */
  readonly adapter: AdapterInForce | null;
  /** The model's own words, as far as they have come. */
  readonly plan: string;
  readonly narration: string;
  /** Calendar time. */
  readonly at: string;
  /** What had been presented when it was asked: earlier frames are what the turn continues from. */
  readonly presented90k: MediaTime90k;
  readonly epoch: number;
  readonly outcome: 'open' | 'applied' | 'superseded' | 'failed';
}

/** Turns kept; the oldest is dropped beyond that (a person who types a prompt a minute fills this in four hours). */
export const MAX_TURNS = 256;
/** Characters of plan and narration kept of each turn. */
const MAX_WORDS = 2_000;

type HeldTurn = { -readonly [Key in keyof Turn]: Turn[Key] } & { supersededBy: string | null };

/** What a turn asks for; what is undefined stays as it was last asked for. */
export type NewTurn = Pick<Turn, 'requestId' | 'at' | 'presented90k' | 'epoch'> & { readonly prompt: string | null | undefined; readonly adapter?: AdapterInForce | null | undefined };

/** What a session remembers of what it was asked, in order. */
export class PromptMemory {
  readonly #turns: HeldTurn[] = [];
  readonly #onChanged: ((ordinal: number, turn: Turn) => void) | null;
  #dropped = 0;

  /** @param onChanged told of every turn that is new or another than before, by its number since the session began. */
  constructor(onChanged: ((ordinal: number, turn: Turn) => void) | null = null) {
    this.#onChanged = onChanged;
  }

  get turns(): readonly Turn[] {
    return this.#turns;
  }

  /** How many of the oldest turns are forgotten. */
  get dropped(): number {
    return this.#dropped;
  }

  /** The prompt in force: of the last turn that is not void. */
  get prompt(): string | null {
    return this.#inForce?.prompt ?? null;
  }

  /** The adapter in force, likewise. */
  get adapter(): AdapterInForce | null {
    return this.#inForce?.adapter ?? null;
  }

  append({ prompt, adapter, ...turn }: NewTurn): void {
    // A turn that replaces another before anything of it was shown keeps what it doesn't name itself: so does the engine.
    const last = this.#turns.at(-1);
    const before = last?.supersededBy != null && last.supersededBy === turn.requestId ? last : this.#inForce;
    const asked = { prompt: prompt === undefined ? (before?.prompt ?? null) : prompt, adapter: adapter === undefined ? (before?.adapter ?? null) : adapter };
    this.#turns.push({ ...turn, ...asked, plan: '', narration: '', outcome: 'open', supersededBy: null });
    if (this.#turns.length > MAX_TURNS) {
      this.#turns.shift();
      this.#dropped += 1;
    }
    this.#changed(this.#turns.at(-1)!);
  }

  /** Goes on behind turns that were kept. Only before the first. */
  restore(turns: readonly { readonly ordinal: number; readonly turn: Turn }[]): void {
    this.#turns.push(...turns.slice(-MAX_TURNS).map(({ turn }) => ({ ...turn, supersededBy: null })));
    this.#dropped = (turns.at(-1)?.ordinal ?? -1) + 1 - this.#turns.length;
  }

  /** What the model has said of a turn so far, or as a whole; null is the opening. Words for a forgotten turn are nobody's. */
  write(requestId: string | null, stream: 'plan' | 'narration', text: string): void {
    const turn = this.#find(requestId);
    if (!turn) return;
    turn[stream] = text.slice(0, MAX_WORDS);
    this.#changed(turn);
  }

  /** @param by of a superseded turn: the request that took its place. */
  settle(requestId: string | null, outcome: 'applied' | 'superseded' | 'failed', by: string | null = null): void {
    const turn = this.#find(requestId);
    if (turn?.outcome !== 'open') return;
    turn.outcome = outcome;
    turn.supersededBy = by;
    this.#changed(turn);
  }

  #changed(turn: HeldTurn): void {
    this.#onChanged?.(this.#dropped + this.#turns.indexOf(turn), turn);
  }

  get #inForce(): HeldTurn | undefined {
    return this.#turns.findLast(({ outcome }) => outcome === 'open' || outcome === 'applied');
  }

  #find(requestId: string | null): HeldTurn | undefined {
    return this.#turns.findLast((turn) => turn.requestId === requestId);
  }
}
