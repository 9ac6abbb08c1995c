import type { PromptWarning } from '../../protocol/prompt_warning.ts';
import type { BlockId, MemoryTag } from '../model/work.ts';
import type { Predict, ProgramState, RedirectRequest, Transition } from './RealtimeProgram.ts';

/** A prompt, read and encoded before it was asked for: true however the story goes on, as long as the plan that it changes is in force. */
export interface ReadWords {
  readonly prompt: string;
  /** What it would show, in the model's words. */
  readonly plan: string;
  readonly warnings: readonly PromptWarning[];
  /** Everything that it keeps alive with the executor. */
  readonly blocks: readonly BlockId[];
}

/** What a redirect whose words were read already comes to. */
export interface ForeseenRedirect<State> {
  readonly transition: Transition<State>;
  readonly warnings: readonly PromptWarning[];
  readonly predictedMs: number;
}

/**
 * The part of a realtime program that works ahead of a request: first the words of a draft, then the first frame that they would show, from a kept
 * version. Pure, as the program is, and made of the same transitions, so that what is promoted is what a plain redirect from that version gives.
 */
export interface SpeculativeProgram<State extends ProgramState = ProgramState, Words extends ReadWords = ReadWords> {
  /** What one draft may keep with the executor while `forks` versions of it are being made. */
  memory(forks: number): Readonly<Partial<Record<MemoryTag, number>>>;
  /** Whether a story can go on from a version under other words. `held`: nothing else goes on from it, so what it still owes is made here. */
  forkable(version: State, held: boolean): boolean;
  /** A fork that has only words to read. @throws {SegueError} `prompt_not_understood`. */
  read(version: State, current: State, request: RedirectRequest, predict: Predict): State;
  /** What a fork has read; null while it reads. */
  words(version: State, fork: State, prompt: string): Words | null;
  /** A fork that has only media to make; null where the words were read over another plan than the version's. */
  make(version: State, current: State, request: RedirectRequest, words: Words, predict: Predict): State | null;
  /** A redirect, cut or blend with its words read already; null where it has others or none, or where they were read over another plan. */
  begin(state: State, request: RedirectRequest, words: Words, predict: Predict): ForeseenRedirect<State> | null;
  /** A fork's transition as the request's own. */
  promoted(transition: Transition<State>, request: RedirectRequest, words: Words): Transition<State>;
}
