import type { Clock } from '../../observe/clock.ts';
import { sameAdapter, type AdapterInForce } from '../../protocol/session_adapter.ts';
import { frameDuration90k, type MediaTime90k } from '../../streams/media_time.ts';
import type { SessionWords } from '../../streams/session_words.ts';
import type { SharedPool } from '../../streams/shared_pool.ts';
import type { ProgramState, RealtimeProgram, RedirectRequest } from '../programs/RealtimeProgram.ts';
import type { ReadWords, SpeculativeProgram } from '../programs/SpeculativeProgram.ts';
import type { ActionLatch } from '../scheduler/ActionLatch.ts';
import type { Device } from './Device.ts';
import { DraftFork, type ForkOrigin } from './DraftFork.ts';
import type { Story } from './Story.ts';
import type { WorkSource } from './WorkSource.ts';

/** What the session looks like to its draft. */
export interface SpeculatingSession {
  readonly sessionId: string;
  readonly program: RealtimeProgram;
  readonly seed: number;
  readonly words: SessionWords;
  readonly latch: ActionLatch;
  readonly device: Device<WorkSource>;
  readonly pools: { readonly video: SharedPool; readonly audio: SharedPool };
  readonly story: Story;
  /** `none`: nothing may be made ahead. `held`: nothing goes on from its state until somebody asks. */
  readonly phase: () => 'flowing' | 'held' | 'none';
}

/** Versions that a first frame is made from ahead: the one that is on the screen, and those that will be while a key is pressed. */
export const FORKS = 3;
const MAKING_DECAY = 0.3;

interface ActiveFork {
  readonly fork: DraftFork;
  /** It has words to read; else media to make. */
  readonly reads: boolean;
  readonly sinceMs: number;
}

/** The futures of a draft: one that steps, and those that have their first frame. Each is void as soon as its version, its future, what is held or the adapter is another. */
export class DraftForks {
  readonly #session: SpeculatingSession;
  readonly #speculative: SpeculativeProgram;
  readonly #clock: Clock;
  readonly #changed: () => void;
  readonly #frame90k: number;
  #active: ActiveFork | null = null;
  #ready: DraftFork[] = [];
  /** From the first step of a fork's media to its frame, waiting for slack included; a running mean. */
  #makingMs = 0;
  #seen: { readonly media90k: MediaTime90k; readonly atMs: number; readonly lineage: number } | null = null;

  /** @param changed another fork steps than before, or none does. */
  constructor(session: SpeculatingSession, speculative: SpeculativeProgram, clock: Clock, changed: () => void) {
    this.#session = session;
    this.#speculative = speculative;
    this.#clock = clock;
    this.#changed = changed;
    this.#frame90k = frameDuration90k(session.program.format);
  }

  /** The fork that steps now, of words or media. */
  get active(): DraftFork | null {
    return this.#active?.fork ?? null;
  }

  get readyCount(): number {
    return this.#ready.length;
  }

  /** What a redirect that doesn't name one is shown under. */
  get adapter(): AdapterInForce | null {
    return this.#session.program.adapterAsked(this.#session.story.state);
  }

  presented(media90k: MediaTime90k): void {
    this.#seen = { media90k, atMs: this.#clock.now(), lineage: this.#session.story.state.lineage };
  }

  /** Begins one that reads words, from the newest version. @param state what it steps from. */
  read(version: ProgramState, state: ProgramState): DraftFork {
    return this.#begin(version, state, true);
  }

  /**
   * Begins one from the version that will be on the screen when its frame is there, or from those that follow it: what takes longer than it is shown is not begun.
   * Null where nothing is left to make.
   */
  make(request: RedirectRequest, words: ReadWords, held: boolean): DraftFork | null {
    const { story, device } = this.#session;
    const wanted = story.from(held ? 0 : this.#expected90k(this.#makingMs)).slice(0, FORKS);
    for (const version of wanted) {
      if (this.#ready.some(({ origin }) => origin.version === version) || !this.#speculative.forkable(version, held)) continue;
      if (!this.#makeRoom()) return null;
      const state = this.#speculative.make(version, story.state, request, words, (component) => device.costs.component(component));
      if (state !== null) return this.#begin(version, state, false);
    }
    return null;
  }

  /** The active one has its first frame. */
  completed(): void {
    const { fork } = this.#active!;
    this.#learn(false);
    this.#activate(null);
    this.#ready.push(fork);
  }

  /** All of them, in the caller's hands from here on; those with their frame first. */
  take(): readonly DraftFork[] {
    const all = [...this.#ready, ...(this.#active === null ? [] : [this.#active.fork])];
    this.#ready = [];
    this.#activate(null);
    return all;
  }

  /** Forks that no redirect could begin with any more. What reads words can't be outdated. */
  dropOutdated(): void {
    const { story } = this.#session;
    const lineage = story.state.lineage + 1;
    const { steer, speed } = this.#heldInput();
    const { adapter } = this;
    const stands = ({ origin }: DraftFork): boolean =>
      origin.lineage === lineage && sameAdapter(origin.adapter, adapter) && origin.action.steer === steer && origin.action.speed === speed && story.from(origin.version.position90k)[0] === origin.version;
    const making = this.#active === null || this.#active.reads ? null : this.#active.fork;
    const passed = making !== null && this.#session.phase() === 'flowing' && making.origin.version.position90k < this.#expected90k(0);
    if (passed) this.#learn(true);
    if (making !== null && (passed || !stands(making))) this.dropActive();
    for (const fork of this.#ready) if (!stands(fork)) fork.drop();
    this.#ready = this.#ready.filter(stands);
  }

  /** All but what reads words. */
  dropMedia(): void {
    if (this.#active?.reads === false) this.dropActive();
    for (const fork of this.#ready.splice(0)) fork.drop();
  }

  dropActive(): void {
    const { fork } = this.#active ?? {};
    if (fork === undefined) return;
    this.#activate(null);
    fork.drop();
  }

  #begin(version: ProgramState, state: ProgramState, reads: boolean): DraftFork {
    const { program, device, pools, story } = this.#session;
    const origin: ForkOrigin = { version, lineage: story.state.lineage + 1, action: this.#heldInput(), adapter: this.adapter };
    const fork = new DraftFork(origin, state, program, device.pool, pools);
    this.#activate({ fork, reads, sinceMs: this.#clock.now() });
    return fork;
  }

  #activate(active: ActiveFork | null): void {
    this.#active = active;
    this.#changed();
  }

  /** Lets go of what was on the screen longest ago; false where everything is still to come. */
  #makeRoom(): boolean {
    if (this.#ready.length < FORKS) return true;
    const first = this.#ready.reduce((one, other) => (other.origin.version.position90k < one.origin.version.position90k ? other : one));
    if (first.origin.version.position90k >= this.#expected90k(0)) return false;
    this.#ready = this.#ready.filter((fork) => fork !== first);
    first.drop();
    return true;
  }

  /** Learns how long a first frame takes; from one that came too late, only that it takes longer. */
  #learn(tooLate: boolean): void {
    const tookMs = this.#clock.now() - this.#active!.sinceMs;
    if (!tooLate || tookMs > this.#makingMs) this.#makingMs += MAKING_DECAY * (tookMs - this.#makingMs);
  }

  /** What will be on the screen `inMs` from now, as far as reports tell. */
  #expected90k(inMs: number): MediaTime90k {
    const { story } = this.#session;
    // A report from before the story was gone back on says nothing of now.
    if (this.#seen?.lineage !== story.state.lineage) return story.committed.position90k;
    const elapsed90k = (this.#clock.now() + inMs - this.#seen.atMs) * 90;
    return Math.min(story.newest.position90k, Math.floor((this.#seen.media90k + elapsed90k) / this.#frame90k) * this.#frame90k);
  }

  #heldInput(): ForkOrigin['action'] {
    const { latch, words } = this.#session;
    return latch.read(words.action);
  }
}
