import type { BlockAccount, BlockPool } from '../memory/BlockPool.ts';
import type { Predict, ProgramState, RealtimeProgram, RedirectRequest, Transition } from '../programs/RealtimeProgram.ts';
import type { ForeseenRedirect, ReadWords, SpeculativeProgram } from '../programs/SpeculativeProgram.ts';
import type { HeldAction } from '../scheduler/LoopScheduler.ts';
import { sameAdapter } from '../../protocol/session_adapter.ts';
import type { DraftFork, ForkOrigin } from './DraftFork.ts';
import type { CommittedUnit } from './WorkSource.ts';

export interface PromotableParts {
  readonly speculative: SpeculativeProgram;
  readonly program: RealtimeProgram;
  readonly pool: BlockPool;
  /** That its blocks are charged to. */
  readonly account: BlockAccount;
  readonly words: ReadWords;
  readonly forks: readonly DraftFork[];
}

export interface Promotion extends ForeseenRedirect<ProgramState> {
  /** `words`: nothing but them was there. `steps`: some of the first frame's steps as well. `frame`: the frame. */
  readonly from: 'words' | 'steps' | 'frame';
  /** Versions that were made on the way, but for the transition's own. */
  readonly versions: readonly ProgramState[];
  readonly felt: CommittedUnit | null;
  /** Once the session holds the transition's state: what the draft held of it is let go of. */
  readonly taken: () => void;
}

/** What a draft has come to by the time that a redirect comes, in the hands of the session. Released once, used or not. */
export class PromotableDraft {
  readonly #parts: PromotableParts;
  readonly #forks: Set<DraftFork>;
  #onRelease: () => void = () => undefined;

  constructor(parts: PromotableParts) {
    this.#parts = parts;
    this.#forks = new Set(parts.forks);
  }

  onRelease(run: () => void): void {
    this.#onRelease = run;
  }

  /** Whether the request's first frame was made from this version. */
  reaches(version: ProgramState | undefined, request: RedirectRequest): boolean {
    return [...this.#forks].some(({ origin, made }) => made !== null && origin.version === version && shows(origin, request));
  }

  /**
   * What the redirect comes to; null where the draft says something else. `version` is what the state was gone back to, null where it wasn't;
   * `action` is what is held. Changes nothing but who is charged for blocks.
   */
  begin(state: ProgramState, version: ProgramState | null, action: HeldAction, request: RedirectRequest, to: BlockAccount, predict: Predict): Promotion | null {
    const { speculative, words, pool, account, program } = this.#parts;
    const begun = speculative.begin(state, request, words, predict);
    if (begun === null || !pool.transfer(words.blocks, to, account)) return null;
    const fork = [...this.#forks].find(
      ({ origin, felt }) => felt !== null && shows(origin, request) && origin.version === version && origin.lineage === state.lineage && origin.action.steer === action.steer && origin.action.speed === action.speed,
    );
    const kept = fork === undefined ? [] : [fork.state, ...fork.versions].flatMap((one) => program.blocks(one));
    if (fork === undefined || !pool.transfer(kept, to, account)) return { ...begun, from: 'words', versions: [], felt: null, taken: () => undefined };
    const { made, state: forked, versions, felt } = fork;
    const own = (transition: Transition<ProgramState>): Transition<ProgramState> => speculative.promoted(transition, request, words);
    const transition = own(made ?? { state: forked, version: null, frame: null, text: [], applied: null, decisions: [] });
    const before = versions.filter((one) => one !== made?.version);
    return {
      transition: { ...transition, text: begun.transition.text, decisions: [...begun.transition.decisions, ...transition.decisions] },
      warnings: begun.warnings,
      predictedMs: made === null ? begun.predictedMs : 0,
      from: made === null ? 'steps' : 'frame',
      versions: before.flatMap((one) => own({ state: one, version: one, frame: null, text: [], applied: null, decisions: [] }).version ?? []),
      felt,
      taken: () => {
        this.#forks.delete(fork);
        fork.surrender();
      },
    };
  }

  release(): void {
    const { pool, words } = this.#parts;
    for (const fork of this.#forks) fork.drop();
    this.#forks.clear();
    pool.release(words.blocks);
    this.#onRelease();
    this.#onRelease = () => undefined;
  }
}

/** A fork goes on from the picture, at once and under one adapter: a cut doesn't, a blend isn't at once. */
function shows({ adapter }: ForkOrigin, request: RedirectRequest): boolean {
  return request.transition === undefined && !request.seamless && sameAdapter(request.adapter ?? null, adapter);
}
