import type { Clock } from '../../observe/clock.ts';
import type { SegueError } from '../../protocol/errors.ts';
import { sameAdapter, type AdapterInForce } from '../../protocol/session_adapter.ts';
import type { EngineToControl, TraceEvent } from '../../streams/messages.ts';
import { frameDuration90k, type MediaTime90k } from '../../streams/media_time.ts';
import type { ActionState, SessionWords } from '../../streams/session_words.ts';
import type { SharedPool } from '../../streams/shared_pool.ts';
import type { LoopState } from '../model/loop_kernel.ts';
import type { WorkPlan } from '../model/work.ts';
import type { CommittedStep, Predict, ProgramState, RealtimeProgram, RedirectRequest } from '../programs/RealtimeProgram.ts';
import type { ReadWords, SpeculativeProgram } from '../programs/SpeculativeProgram.ts';
import type { ActionLatch } from '../scheduler/ActionLatch.ts';
import type { AdmissionGrant } from '../scheduler/AdmissionController.ts';
import type { LoopTurn } from '../scheduler/LoopTurn.ts';
import type { QueuedTurn } from '../scheduler/ReadyQueue.ts';
import type { WorkUnit } from '../scheduler/WorkUnit.ts';
import type { Device } from './Device.ts';
import { DraftFork } from './DraftFork.ts';
import { PromotableDraft } from './PromotableDraft.ts';
import type { Story } from './Story.ts';
import type { CommittedUnit, WorkSource } from './WorkSource.ts';

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

export interface SpeculationDependencies {
  readonly clock: Clock;
  readonly toControl: (message: EngineToControl) => void;
  readonly trace: (event: TraceEvent) => void;
  readonly changed: (source: Speculation) => void;
}

/** A draft as the client sent it: the newest one counts. */
export interface Draft {
  readonly draftId: string;
  readonly prompt: string;
  /** Only words can be made ahead of a change that doesn't go back to what was seen. */
  readonly seamless: boolean;
}

/** Versions that a first frame is made from ahead: the one that is on the screen, and those that will be while a key is pressed. */
const FORKS = 3;
/** After a late frame of anybody on the device nothing is made ahead for so long. */
const PRESSURE_MS = 2_000;
/** A draft that nobody has touched for so long was left lying: its words are kept, but no more media is made for it. */
const MEDIA_LIFE_MS = 15_000;
/** A draft's unit begins only where it ends so long before live media may begin. */
const MARGIN_MS = 1;
const MAX_FAILURES = 2;
const MAKING_DECAY = 0.3;

/**
 * Works on what a person is typing, before it is sent: a source of work of its own that only ever fills slack. Its units join nobody's batch, are due never,
 * and begin only where they end before live media wants the device. Nothing of it is shown or kept unless a redirect with the same words promotes it.
 *
 * Words come first (director and encoder): they stay true however the story moves on. Then the first frame that they would show is made from the versions
 * that a redirect may soon go back to; each is void as soon as that version, its future or what is held has changed.
 */
export class Speculation implements WorkSource {
  readonly sessionId: string;
  readonly programId: string;
  readonly seed: number;
  readonly device: Device<WorkSource>;
  readonly pools: { readonly video: SharedPool; readonly audio: SharedPool };
  readonly latch: Pick<ActionLatch, 'read'>;
  readonly timeline: WorkSource['timeline'];
  readonly reserve = { deadline: () => Infinity, charge: () => undefined };
  readonly boostedSinceMs = null;
  readonly betweenChunks = true;
  /** Alone: a batch with live units would make them later. */
  readonly suspect = true;
  inFlight: WorkUnit | null = null;
  queued: QueuedTurn<WorkSource>[] = [];
  slackSinceMs: number | null = null;
  refusedSinceMs: number | null = null;
  readonly #session: SpeculatingSession;
  readonly #speculative: SpeculativeProgram;
  readonly #deps: SpeculationDependencies;
  readonly #frame90k: number;
  #draft: Draft | null = null;
  #draftedAtMs = 0;
  #grant: AdmissionGrant | null = null;
  #words: ReadWords | null = null;
  /** The fork that steps now, of words or media. */
  #active: DraftFork | null = null;
  /** Forks with their first frame. */
  #ready: DraftFork[] = [];
  /** Raised whenever another fork steps: a unit of the one before comes back to nobody. */
  #serial = 0;
  #failures = 0;
  #heldOffUntilMs = -Infinity;
  #nextCostMs = 0;
  #activeSinceMs = 0;
  /** From the first step of a fork's media to its frame, waiting for slack included; a running mean. */
  #makingMs = 0;
  #seen: { readonly media90k: MediaTime90k; readonly atMs: number; readonly lineage: number } | null = null;
  #closed = false;

  constructor(session: SpeculatingSession, speculative: SpeculativeProgram, deps: SpeculationDependencies) {
    this.sessionId = `${session.sessionId}/draft`;
    this.programId = session.program.spec.programId;
    this.seed = session.seed;
    this.device = session.device;
    this.pools = session.pools;
    this.latch = session.latch;
    this.#session = session;
    this.#speculative = speculative;
    this.#deps = deps;
    this.#frame90k = frameDuration90k(session.program.format);
    this.timeline = { releaseMs: () => this.#releaseMs(), deadlineMs: () => Infinity };
  }

  get grant(): AdmissionGrant {
    if (this.#grant === null) throw new TypeError(`${this.sessionId} has no memory: it has no turns either`);
    return this.#grant;
  }

  get action(): ActionState {
    return this.#session.words.action;
  }

  get epoch(): number {
    return this.#serial;
  }

  get epochWord(): number {
    return this.#serial;
  }

  get closed(): boolean {
    return this.#closed || this.#session.words.closed;
  }

  /** Frames that are ready to be shown; for reports and tests. */
  get readyFrames(): number {
    return this.#ready.length;
  }

  get hasWords(): boolean {
    return this.#words !== null;
  }

  // ---------------------------------------------------------------- what is typed

  /** The newest draft takes the place of any before; null drops it. */
  draft(draft: Draft | null): void {
    if (this.#closed) return;
    this.#draftedAtMs = this.#deps.clock.now();
    if (draft !== null && this.#draft !== null && draft.prompt === this.#draft.prompt) {
      this.#draft = draft;
      if (draft.seamless) this.#dropMedia();
      if (this.#words !== null) this.#tellPreview(this.#words);
    } else {
      this.#clear();
      this.#draft = draft;
    }
    this.#deps.changed(this);
  }

  /** A redirect came: whatever it says, the draft is over. The caller releases what it is given. */
  taken(): PromotableDraft | null {
    if (this.#words === null || this.#grant === null) {
      this.#clear();
      return null;
    }
    const { program, device } = this.#session;
    const forks = [...this.#ready, ...(this.#active === null ? [] : [this.#active])];
    const taken = new PromotableDraft({ speculative: this.#speculative, program, pool: device.pool, account: this.#grant.account, words: this.#words, forks });
    const grant = this.#grant;
    this.#words = null;
    this.#ready = [];
    this.#activate(null);
    this.#grant = null;
    this.#clear();
    taken.onRelease(() => grant.release());
    return taken;
  }

  // ---------------------------------------------------------------- what the session does

  /** Versions, held input or the session's phase may be others than before. */
  moved(): void {
    if (this.#draft !== null && this.inFlight === null) this.#deps.changed(this);
  }

  presented(media90k: MediaTime90k): void {
    this.#seen = { media90k, atMs: this.#deps.clock.now(), lineage: this.#session.story.state.lineage };
    this.moved();
  }

  /** Somebody's frame came late on this device: what was made ahead goes, but for the words, and nothing is made for a while. */
  pressed(): void {
    if (this.#draft === null) return;
    this.#heldOffUntilMs = this.#deps.clock.now() + PRESSURE_MS;
    this.#dropMedia();
    this.#deps.changed(this);
  }

  /** Memory is wanted by somebody who has asked for something. True where that freed any. */
  yieldMemory(): boolean {
    if (this.#grant === null) return false;
    this.#clear();
    return true;
  }

  close(): void {
    if (this.#closed) return;
    this.#clear();
    this.#closed = true;
  }

  // ---------------------------------------------------------------- steps

  turns(): readonly LoopTurn[] {
    const { program, pools, device } = this.#session;
    if (this.closed || this.inFlight !== null || this.#draft === null || !device.usable) return [];
    this.#dropOutdated();
    const fork = this.#next();
    if (fork === null) return [];
    const turn = program.turns(fork.state)[0];
    if (turn === undefined) return [];
    // The session's own frames come first: what is made ahead takes no slot of the chunk that it makes, nor of the next.
    const spare = 2 * program.framesPerChunk + 1;
    if (!pools.video.canAcquire(spare) || !pools.audio.canAcquire(spare)) return [];
    this.#nextCostMs = device.costs.component(turn.component);
    return [{ ...turn, leadsTo: 0, after: [], opensMedia: true, boosted: false }];
  }

  fenced(): boolean {
    return false;
  }

  current(loopId: string): LoopState | null {
    return this.#active === null ? null : this.#session.program.current(this.#active.state, loopId);
  }

  stage(step: CommittedStep, predict: Predict): (unit: CommittedUnit) => void {
    const fork = this.#active;
    if (fork === null) throw new TypeError(`${this.sessionId} has no fork that steps`);
    const transition = this.#session.program.advance(fork.state, step, predict);
    return (unit) => {
      this.#failures = 0;
      fork.advance(transition, unit);
      if (this.#words === null) this.#read(fork);
      else if (fork.made !== null) {
        this.#made(false);
        this.#activate(null);
        this.#ready.push(fork);
        this.#trace('draft.ready', { media90k: fork.origin.version.position90k });
      }
    };
  }

  failed(_error: SegueError, _plan: WorkPlan): void {
    if (++this.#failures >= MAX_FAILURES) this.#clear();
    this.#deps.changed(this);
  }

  fault(_error: SegueError, fatal: boolean): void {
    if (fatal) this.#clear();
  }

  // ---------------------------------------------------------------- forks

  #next(): DraftFork | null {
    const phase = this.#session.phase();
    if (phase === 'none' || this.#draft === null) return null;
    if (this.#active !== null) return this.#active;
    if (this.#grant === null && !this.#reserve()) return null;
    const fork = this.#words === null ? this.#readingFork() : this.#mayMakeMedia ? this.#mediaFork(this.#words, phase === 'held') : null;
    if (fork !== null) this.#activate(fork);
    return fork;
  }

  get #mayMakeMedia(): boolean {
    return this.#draft?.seamless === false && this.#deps.clock.now() - this.#draftedAtMs < MEDIA_LIFE_MS;
  }

  #readingFork(): DraftFork | null {
    const { story } = this.#session;
    // Held: a version of any kind may have its words changed.
    if (!this.#speculative.forkable(story.newest, true)) return null;
    try {
      return this.#fork(story.newest, this.#speculative.read(story.newest, story.state, this.#request(), (component) => this.device.costs.component(component)));
    } catch {
      // What isn't understood is told by whoever asks for it; a draft is only what it might come to.
      this.#clear();
      return null;
    }
  }

  /** From the version that will be on the screen when its frame is there, and from those that follow it: what takes longer than it is shown is not begun. */
  #mediaFork(words: ReadWords, held: boolean): DraftFork | null {
    const { story, device } = this.#session;
    const wanted = story.from(held ? 0 : this.#expected90k(this.#makingMs)).slice(0, FORKS);
    for (const version of wanted) {
      if (this.#ready.some(({ origin }) => origin.version === version) || !this.#speculative.forkable(version, held)) continue;
      if (!this.#makeRoom()) return null;
      const state = this.#speculative.make(version, story.state, this.#request(), words, (component) => device.costs.component(component));
      if (state !== null) return this.#fork(version, state);
    }
    return null;
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

  #fork(version: ProgramState, state: ProgramState): DraftFork {
    const { program, device, pools, story } = this.#session;
    return new DraftFork({ version, lineage: story.state.lineage + 1, action: this.#heldInput(), adapter: this.#adapter }, state, program, device.pool, pools);
  }

  #read(fork: DraftFork): void {
    const { device } = this.#session;
    const words = this.#speculative.words(fork.origin.version, fork.state, this.#draft!.prompt);
    if (words === null) return;
    device.pool.retain(words.blocks);
    this.#words = words;
    this.#activate(null);
    fork.drop();
    this.#tellPreview(words);
  }

  /** Forks that no redirect could begin with any more. */
  #dropOutdated(): void {
    const { story } = this.#session;
    const lineage = story.state.lineage + 1;
    const { steer, speed } = this.#heldInput();
    const adapter = this.#adapter;
    const stands = ({ origin }: DraftFork): boolean =>
      origin.lineage === lineage && sameAdapter(origin.adapter, adapter) && origin.action.steer === steer && origin.action.speed === speed && story.from(origin.version.position90k)[0] === origin.version;
    const active = this.#words === null ? null : this.#active;
    const passed = active !== null && this.#session.phase() === 'flowing' && active.origin.version.position90k < this.#expected90k(0);
    if (passed) this.#made(true);
    if (active !== null && (passed || !stands(active))) this.#dropActive();
    for (const fork of this.#ready) if (!stands(fork)) fork.drop();
    this.#ready = this.#ready.filter(stands);
  }

  /** Learns how long a first frame takes; from one that came too late, only that it takes longer. */
  #made(tooLate: boolean): void {
    const tookMs = this.#deps.clock.now() - this.#activeSinceMs;
    if (!tooLate || tookMs > this.#makingMs) this.#makingMs += MAKING_DECAY * (tookMs - this.#makingMs);
  }

  #dropMedia(): void {
    if (this.#words !== null) this.#dropActive();
    for (const fork of this.#ready.splice(0)) fork.drop();
  }

  #dropActive(): void {
    const fork = this.#active;
    if (fork === null) return;
    this.#activate(null);
    fork.drop();
  }

  #activate(fork: DraftFork | null): void {
    this.#active = fork;
    this.#activeSinceMs = this.#deps.clock.now();
    this.#serial++;
    for (const queued of this.queued) queued.void = true;
    this.queued = [];
  }

  #clear(): void {
    this.#dropActive();
    this.#activate(null);
    this.#dropMedia();
    if (this.#words !== null) this.#session.device.pool.release(this.#words.blocks);
    this.#words = null;
    this.#draft = null;
    this.#failures = 0;
    this.#grant?.release();
    this.#grant = null;
  }

  #reserve(): boolean {
    const admission = this.device.admission.admitSlack(this.sessionId, this.#speculative.memory(FORKS + 1));
    if (!admission.admitted) return false;
    this.#grant = admission.grant;
    return true;
  }

  /** What will be on the screen `inMs` from now, as far as reports tell. */
  #expected90k(inMs: number): MediaTime90k {
    const { story } = this.#session;
    // A report from before the story was gone back on says nothing of now.
    if (this.#seen?.lineage !== story.state.lineage) return story.committed.position90k;
    const elapsed90k = (this.#deps.clock.now() + inMs - this.#seen.atMs) * 90;
    return Math.min(story.newest.position90k, Math.floor((this.#seen.media90k + elapsed90k) / this.#frame90k) * this.#frame90k);
  }

  #heldInput(): DraftFork['origin']['action'] {
    const { latch, words } = this.#session;
    return latch.read(words.action);
  }

  /** What a redirect that doesn't name one is shown under. */
  get #adapter(): AdapterInForce | null {
    return this.#session.program.adapterAsked(this.#session.story.state);
  }

  #request(): RedirectRequest {
    return { requestId: this.sessionId, prompt: this.#draft!.prompt, adapter: this.#adapter, seamless: false, conditioningVersion: DRAFT_VERSION };
  }

  #releaseMs(): number {
    const nowMs = this.#deps.clock.now();
    if (this.#heldOffUntilMs > nowMs) return this.#heldOffUntilMs;
    const nextMs = this.device.queue.nextReleaseMs();
    return nextMs === null || nextMs - nowMs >= this.#nextCostMs + MARGIN_MS || nextMs <= nowMs ? -Infinity : nextMs + MARGIN_MS;
  }

  #tellPreview({ plan, warnings }: ReadWords): void {
    this.#deps.toControl({ type: 'draft.preview', sessionId: this.#session.sessionId, draftId: this.#draft!.draftId, plan, warnings });
  }

  #trace(name: string, args: Readonly<Record<string, string | number | boolean>>): void {
    this.#deps.trace({ type: 'trace.scheduler', name, atMs: this.#deps.clock.now(), sessionId: this.#session.sessionId, args });
  }
}

/** Of what nobody has asked for: no request has it. */
const DRAFT_VERSION = -2;
