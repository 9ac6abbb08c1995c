import { SegueError } from '../protocol/errors.ts';
import type { NamedPlan } from '../protocol/named_plan.ts';
import { MAX_TURNS, MAX_WORDS, type InForce, type TurnEdit } from '../protocol/prompt_memory.ts';
import type { AdapterInForce } from '../protocol/session_adapter.ts';
import type { MediaTime90k } from '../streams/media_time.ts';
import { BLANK_TURN, condense, inForceOf, isVoid, type NumberedTurn, type Turn } from './memory_turn.ts';
import { cutBack, presentThrough } from './presented_ranges.ts';

export type { Turn } from './memory_turn.ts';
export { MAX_TURNS } from '../protocol/prompt_memory.ts';

/** Turns that become one when there are too many: a quarter, so that it is rare. */
const FOLDED_TURNS = MAX_TURNS / 4;
/** How far a range grows before that is told again. */
const RANGE_STEP_90K = 90_000;

type HeldTurn = { -readonly [Key in keyof Turn]: Turn[Key] } & { readonly ordinal: number; supersededBy: string | null; toldEnd90k: MediaTime90k };

/** What a turn asks for; what is undefined stays as it was last asked for. */
export type NewTurn = Pick<Turn, 'requestId' | 'at' | 'presented90k' | 'epoch'> & { readonly prompt: string | null | undefined; readonly adapter?: AdapterInForce | null | undefined; readonly from90k?: MediaTime90k };

export interface MemoryListener {
  /** A turn is new, or another than before. */
  turn(ordinal: number, turn: Turn): void;
  /** Several at once, as a whole or not at all; null: it is gone. */
  turns(changes: readonly { readonly ordinal: number; readonly turn: Turn | null }[]): void;
  /** The oldest turns became one. */
  condensed(ordinal: number, turn: Turn): void;
}

/**
 * What a session remembers of what it was asked, in order, and when that was presented. Bounded: with more than {@link MAX_TURNS} turns the oldest are folded
 * into one that keeps what was in force at their end and how many it stands for.
 */
export class PromptMemory {
  #turns: HeldTurn[] = [];
  readonly #listener: MemoryListener | null;
  #next = 0;

  constructor(listener: MemoryListener | null = null) {
    this.#listener = listener;
  }

  get turns(): readonly (Turn & { readonly ordinal: number })[] {
    return this.#turns;
  }

  /** As they are kept. */
  get numbered(): NumberedTurn[] {
    return this.#turns.map((turn) => ({ ordinal: turn.ordinal, turn: plain(turn) }));
  }

  /** What the next words change. */
  get inForce(): InForce {
    return inForceOf(this.#turns);
  }

  /** The prompt in force: of the last turn that is not void. */
  get prompt(): string | null {
    return this.#last?.prompt ?? null;
  }

  /** The adapter in force, likewise. */
  get adapter(): AdapterInForce | null {
    return this.#last?.adapter ?? null;
  }

  /** The turn that what is shown is made of. */
  get turnInForce(): Turn | null {
    return this.#last ?? null;
  }

  append({ prompt, adapter, ...turn }: NewTurn): void {
    // A turn that replaces another before anything of it was shown keeps what it doesn't name itself: so does the engine.
    const last = this.#turns.at(-1);
    const before = last?.supersededBy != null && last.supersededBy === turn.requestId ? last : this.#last;
    const same = prompt === undefined;
    const asked = { prompt: same ? (before?.prompt ?? null) : prompt, adapter: adapter === undefined ? (before?.adapter ?? null) : adapter, attributes: same ? (before?.attributes ?? null) : null };
    const added = this.#hold({ ...BLANK_TURN, ...turn, ...asked });
    this.#turns.push(added);
    this.#changed(added);
    if (this.#turns.length > MAX_TURNS) this.#fold();
  }

  /** Goes on behind turns that were kept. Only before the first. */
  restore(turns: readonly NumberedTurn[]): void {
    for (const { ordinal, turn } of turns.slice(-MAX_TURNS)) {
      this.#next = ordinal;
      this.#turns.push(this.#hold({ ...BLANK_TURN, ...turn }));
    }
  }

  /** Goes on behind turns of another session, which are this one's from here on. Only before the first. */
  adopt(turns: readonly NumberedTurn[]): void {
    this.restore(turns);
    this.#listener?.turns(this.numbered);
  }

  /** What the model has said of a turn so far, or as a whole; null is the opening. Words for a forgotten turn are nobody's. */
  write(requestId: string | null, stream: 'plan' | 'narration', text: string, attributes: NamedPlan | null = null): void {
    const turn = this.#find(requestId);
    if (!turn) return;
    turn[stream] = text.slice(0, MAX_WORDS);
    if (attributes !== null) turn.attributes = attributes;
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

  /** A turn's first frame. */
  shown(requestId: string | null, from90k: MediaTime90k): void {
    const turn = this.#find(requestId);
    if (turn === undefined) return;
    turn.from90k = from90k;
    this.#changed(turn);
  }

  /** All of the story up to there has been presented. */
  present(presented90k: MediaTime90k): void {
    const last = this.#turns.at(-1);
    for (const { turn, presented } of presentThrough(this.#turns, presented90k)) {
      turn.presented = presented;
      if (turn === last && presented!.end90k - turn.toldEnd90k < RANGE_STEP_90K) continue;
      turn.toldEnd90k = presented!.end90k;
      this.#changed(turn);
    }
  }

  /** The story goes on from there. */
  rewind(to90k: MediaTime90k): void {
    for (const { turn, ...left } of cutBack(this.#turns, to90k)) {
      Object.assign(turn, left, { toldEnd90k: left.presented?.end90k ?? 0 });
      this.#changed(turn);
    }
  }

  /**
   * The story goes on from there, and with it what was in force then: later turns stay listed, and nothing is made of them any more.
   * @param epoch of the rewind: what was asked for in it, or after it, was asked for there.
   */
  goBack(to90k: MediaTime90k, epoch: number): void {
    for (const turn of this.#turns) {
      if (turn.imported || turn.epoch >= epoch || isVoid(turn) || isPartOf(turn, to90k)) continue;
      turn.outcome = 'rewound';
      turn.from90k = null;
      turn.presented = null;
      turn.toldEnd90k = 0;
      this.#changed(turn);
    }
    this.rewind(to90k);
  }

  /** What was remembered at a moment of the story, as another session's. */
  upTo(to90k: MediaTime90k): NumberedTurn[] {
    const known = this.#turns.filter((turn) => turn.imported || isPartOf(turn, to90k));
    const cut = new Map(cutBack(known, to90k).map(({ turn, ...left }) => [turn, left]));
    return known.map((turn) => ({ ordinal: turn.ordinal, turn: { ...plain(turn), ...cut.get(turn) } }));
  }

  /** Corrects the words of a turn of the past. @throws {SegueError} `turn_not_found`; `conflict` for the one in force. */
  edit(ordinal: number, words: TurnEdit, at: string): void {
    const turn = this.#past(ordinal);
    if (words.prompt !== undefined) turn.prompt = words.prompt;
    if (words.narration !== undefined) turn.narration = words.narration;
    turn.edited = at;
    this.#changed(turn);
  }

  /** Forgets a turn of the past. @throws {SegueError} `turn_not_found`; `conflict` for the one in force. */
  forget(ordinal: number): void {
    const turn = this.#past(ordinal);
    this.#turns.splice(this.#turns.indexOf(turn), 1);
    this.#listener?.turns([{ ordinal, turn: null }]);
  }

  /** Imported turns in the place of all that came before the turn of a request, or before what is in force, which go on behind them. */
  import(imported: readonly Turn[], requestId: string | null): void {
    const gone = this.#turns.map(({ ordinal }) => ordinal);
    const first = requestId === null ? this.#last : this.#find(requestId);
    const behind = first === undefined ? [] : this.#turns.slice(this.#turns.indexOf(first));
    // A redirect without words made what the import's words had made.
    const kept = behind.map((turn) => (turn === first && turn.prompt === null ? { ...turn, prompt: inForceOf(imported).prompt } : turn));
    const all = [...imported, ...kept];
    // As many as there is room for beside the ones that are kept and the next.
    const excess = all.length - MAX_TURNS + 1;
    const turns = excess <= 0 ? all : [condense(all.slice(0, excess + 1)), ...all.slice(excess + 1)];
    this.#turns = turns.map((turn) => this.#hold(turn));
    this.#listener?.turns([...gone.map((ordinal) => ({ ordinal, turn: null })), ...this.#turns.map((turn) => ({ ordinal: turn.ordinal, turn: plain(turn) }))]);
  }

  #fold(): void {
    const folded = this.#turns.slice(0, FOLDED_TURNS);
    const { ordinal } = folded.at(-1)!;
    const turn: HeldTurn = { ...condense(folded), ordinal, supersededBy: null, toldEnd90k: 0 };
    this.#turns.splice(0, FOLDED_TURNS, turn);
    this.#listener?.turns([...folded.slice(0, -1).map((old) => ({ ordinal: old.ordinal, turn: null })), { ordinal, turn: plain(turn) }]);
    this.#listener?.condensed(ordinal, plain(turn));
  }

  #hold(turn: Turn): HeldTurn {
    return { ...plain(turn), ordinal: this.#next++, supersededBy: null, toldEnd90k: turn.presented?.end90k ?? 0 };
  }

  #changed(turn: HeldTurn): void {
    this.#listener?.turn(turn.ordinal, plain(turn));
  }

  #past(ordinal: number): HeldTurn {
    const turn = this.#turns.find((candidate) => candidate.ordinal === ordinal);
    if (turn === undefined) throw new SegueError('turn_not_found', `no turn ${ordinal}`, { param: 'turn' });
    // Its words are what the world is made of now: a redirect changes that.
    if (turn === this.#last || (turn.outcome === 'open' && turn.requestId !== null && !turn.imported)) throw new SegueError('conflict', `turn ${ordinal} is in force: only the past can be corrected, a redirect changes the present`, { param: 'turn' });
    return turn;
  }

  get #last(): HeldTurn | undefined {
    return this.#turns.findLast((turn) => !isVoid(turn));
  }

  #find(requestId: string | null): HeldTurn | undefined {
    return this.#turns.findLast((turn) => turn.requestId === requestId && !turn.imported && turn.standsFor === 1);
  }
}

/** Whether the story up to a moment shows it: begun before it, or (the opening) with it; one whose first frame isn't told was asked for before, and is in force. */
function isPartOf({ from90k, presented90k, outcome, requestId }: HeldTurn, to90k: MediaTime90k): boolean {
  if (from90k !== null) return from90k < to90k || from90k === 0;
  return requestId === null || (outcome === 'applied' && presented90k < to90k);
}

/** Without what only the memory itself needs. */
function plain(turn: Turn): Turn {
  return Object.fromEntries(Object.keys(BLANK_TURN).map((key) => [key, turn[key as keyof Turn]])) as unknown as Turn;
}
