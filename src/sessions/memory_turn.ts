import type { InForce, MediaRange, MemoryImport } from '../protocol/prompt_memory.ts';
import type { NamedPlan } from '../protocol/named_plan.ts';
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
  /** The plan by attribute; null where none came, or not yet. */
  readonly attributes: NamedPlan | null;
  readonly narration: string;
  /** Calendar time. */
  readonly at: string;
  /** What had been presented when it was asked: earlier frames are what the turn continues from. */
  readonly presented90k: MediaTime90k;
  readonly epoch: number;
  /** `rewound`: the story went back to before it. */
  readonly outcome: 'open' | 'applied' | 'superseded' | 'failed' | 'rewound';
  /** Its first frame; null while nothing of the story shows it. */
  readonly from90k: MediaTime90k | null;
  /** What of it was presented and is part of the story. */
  readonly presented: MediaRange | null;
  /** Turns that it stands for: 1 but where old ones were folded. */
  readonly standsFor: number;
  /** Of another session, and so are its media times. */
  readonly imported: boolean;
  /** Calendar time at which its words were last corrected. */
  readonly edited: string | null;
}

/** A turn by its number since the session began; numbers rise along the list and are never used again. */
export interface NumberedTurn {
  readonly ordinal: number;
  readonly turn: Turn;
}

export const BLANK_TURN: Turn = { requestId: null, prompt: null, adapter: null, plan: '', attributes: null, narration: '', at: '', presented90k: 0, epoch: 0, outcome: 'open', from90k: null, presented: null, standsFor: 1, imported: false, edited: null };

export function isVoid({ outcome }: Pick<Turn, 'outcome'>): boolean {
  return outcome === 'superseded' || outcome === 'failed' || outcome === 'rewound';
}

/** What the next words change: of the last turns that are not void. The attributes are those of the last one that has any. */
export function inForceOf(turns: readonly Turn[]): InForce {
  const last = turns.findLast((turn) => !isVoid(turn));
  const planned = turns.findLast((turn) => !isVoid(turn) && turn.attributes !== null);
  return { prompt: last?.prompt ?? null, attributes: planned?.attributes ?? null, adapter: last?.adapter ?? null };
}

/** Many turns as one: what was in force at their end, from the first frame to the last. It takes the number of the last. */
export function condense(turns: readonly Turn[]): Turn {
  const last = turns.at(-1)!;
  const kept = turns.findLast((turn) => !isVoid(turn));
  const ranges = turns.flatMap(({ presented, imported }) => (presented === null || imported ? [] : [presented]));
  const { prompt, attributes, adapter } = inForceOf(turns);
  return {
    ...BLANK_TURN,
    prompt,
    attributes,
    adapter,
    plan: turns.findLast((turn) => !isVoid(turn) && turn.plan !== '')?.plan ?? '',
    narration: kept?.narration ?? '',
    at: last.at,
    presented90k: turns[0]!.presented90k,
    epoch: last.epoch,
    outcome: kept === undefined ? 'superseded' : 'applied',
    from90k: turns.find(({ from90k }) => from90k !== null)?.from90k ?? null,
    presented: ranges.length === 0 ? null : { start90k: ranges[0]!.start90k, end90k: ranges.at(-1)!.end90k },
    standsFor: turns.reduce((sum, { standsFor }) => sum + standsFor, 0),
    imported: turns.every(({ imported }) => imported),
  };
}

/** The turns of an import. Those that say nothing of what came of them were in force. @param at calendar time of those that have none. */
export function importedTurns({ turns }: MemoryImport, at: string): Turn[] {
  return turns.map(({ turn: _, ...known }) => ({ ...BLANK_TURN, at, outcome: 'applied', ...withoutUndefined(known), from90k: null, imported: true }));
}

/** What a story begins with that goes on from an import: attributes, and words that no plan is known of. @param maxLength of the words; the newest are kept. */
export function openingOf(memory: MemoryImport, turns: readonly Turn[], maxLength = 1_000): InForce {
  if (memory.inForce !== undefined) {
    const { attributes, prompt, adapter } = memory.inForce;
    return { attributes, prompt: attributes === null ? prompt : null, adapter };
  }
  const { attributes, adapter } = inForceOf(turns);
  const planned = turns.findLastIndex((turn) => !isVoid(turn) && turn.attributes !== null);
  const words: string[] = [];
  for (const { prompt } of turns.slice(planned + 1).filter((turn) => !isVoid(turn)).reverse()) {
    if (prompt === null || prompt === words[0]) continue;
    if ([prompt, ...words].join(', ').length > maxLength) break;
    words.unshift(prompt);
  }
  return { attributes, prompt: words.length === 0 ? null : words.join(', '), adapter };
}

function withoutUndefined<T extends object>(value: T): { [Key in keyof T]: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, entry]) => entry !== undefined)) as { [Key in keyof T]: Exclude<T[Key], undefined> };
}
