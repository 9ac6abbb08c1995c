import type { Clock } from '../../observe/clock.ts';
import type { SegueError } from '../../protocol/errors.ts';
import type { EngineToControl, TraceEvent } from '../../streams/messages.ts';
import type { MediaTime90k } from '../../streams/media_time.ts';
import type { ActionState } from '../../streams/session_words.ts';
import type { SharedPool } from '../../streams/shared_pool.ts';
import type { LoopState } from '../model/loop_kernel.ts';
import type { WorkPlan } from '../model/work.ts';
import type { CommittedStep, Predict, RedirectRequest } from '../programs/RealtimeProgram.ts';
import type { ReadWords, SpeculativeProgram } from '../programs/SpeculativeProgram.ts';
import type { ActionLatch } from '../scheduler/ActionLatch.ts';
import type { AdmissionGrant } from '../scheduler/AdmissionController.ts';
import type { LoopTurn } from '../scheduler/LoopTurn.ts';
import type { QueuedTurn } from '../scheduler/ReadyQueue.ts';
import type { WorkUnit } from '../scheduler/WorkUnit.ts';
import type { Device } from './Device.ts';
import type { DraftFork } from './DraftFork.ts';
import { DraftForks, FORKS, type SpeculatingSession } from './DraftForks.ts';
import { PromotableDraft } from './PromotableDraft.ts';
import type { CommittedUnit, WorkSource } from './WorkSource.ts';

export interface SpeculationDependencies {
  readonly clock: Clock;
  readonly toControl: (message: EngineToControl) => void;
  readonly trace: (event: TraceEvent) => void;
  readonly changed: (source: Speculation) => void;
  /** Device time of its units: the session's. */
  readonly spent: (deviceMs: number) => void;
}

/** A draft as the client sent it: the newest one counts. */
export interface Draft {
  readonly draftId: string;
  readonly prompt: string;
  /** Only words can be made ahead of a change that doesn't go back to what was seen. */
  readonly seamless: boolean;
}

/** After a late frame of anybody on the device nothing is made ahead for so long. */
const PRESSURE_MS = 2_000;
/** A draft that nobody has touched for so long was left lying: its words are kept, but no more media is made for it. */
const MEDIA_LIFE_MS = 15_000;
/** A draft's unit begins only where it ends so long before live media may begin. */
const MARGIN_MS = 1;
const MAX_FAILURES = 2;

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
  readonly #forks: DraftForks;
  #draft: Draft | null = null;
  #draftedAtMs = 0;
  #grant: AdmissionGrant | null = null;
  #words: ReadWords | null = null;
  /** Raised whenever another fork steps: a unit of the one before comes back to nobody. */
  #serial = 0;
  #failures = 0;
  #heldOffUntilMs = -Infinity;
  #nextCostMs = 0;
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
    this.#forks = new DraftForks(session, speculative, deps.clock, () => this.#another());
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
    return this.#forks.readyCount;
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
      if (draft.seamless) this.#forks.dropMedia();
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
    const forks = this.#forks.take();
    const taken = new PromotableDraft({ speculative: this.#speculative, program, pool: device.pool, account: this.#grant.account, words: this.#words, forks });
    const grant = this.#grant;
    this.#words = null;
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
    this.#forks.presented(media90k);
    this.moved();
  }

  /** Somebody's frame came late on this device: what was made ahead goes, but for the words, and nothing is made for a while. */
  pressed(): void {
    if (this.#draft === null) return;
    this.#heldOffUntilMs = this.#deps.clock.now() + PRESSURE_MS;
    this.#forks.dropMedia();
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
    if (this.closed || this.inFlight !== null || this.#draft === null || !device.usable || device.switching !== null) return [];
    this.#forks.dropOutdated();
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

  spent(deviceMs: number): void {
    this.#deps.spent(deviceMs);
  }

  current(loopId: string): LoopState | null {
    const { active } = this.#forks;
    return active === null ? null : this.#session.program.current(active.state, loopId);
  }

  stage(step: CommittedStep, predict: Predict): (unit: CommittedUnit) => void {
    const fork = this.#forks.active;
    if (fork === null) throw new TypeError(`${this.sessionId} has no fork that steps`);
    const transition = this.#session.program.advance(fork.state, step, predict);
    return (unit) => {
      this.#failures = 0;
      fork.advance(transition, unit);
      if (this.#words === null) this.#read(fork);
      else if (fork.made !== null) {
        this.#forks.completed();
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
    if (this.#forks.active !== null) return this.#forks.active;
    if (this.#grant === null && !this.#reserve()) return null;
    if (this.#words === null) return this.#readingFork();
    return this.#mayMakeMedia ? this.#forks.make(this.#request(), this.#words, phase === 'held') : null;
  }

  get #mayMakeMedia(): boolean {
    return this.#draft?.seamless === false && this.#deps.clock.now() - this.#draftedAtMs < MEDIA_LIFE_MS;
  }

  #readingFork(): DraftFork | null {
    const { story } = this.#session;
    // Held: a version of any kind may have its words changed.
    if (!this.#speculative.forkable(story.newest, true)) return null;
    try {
      return this.#forks.read(story.newest, this.#speculative.read(story.newest, story.state, this.#request(), (component) => this.device.costs.component(component)));
    } catch {
      // What isn't understood is told by whoever asks for it; a draft is only what it might come to.
      this.#clear();
      return null;
    }
  }

  #read(fork: DraftFork): void {
    const { device } = this.#session;
    const words = this.#speculative.words(fork.origin.version, fork.state, this.#draft!.prompt);
    if (words === null) return;
    device.pool.retain(words.blocks);
    this.#words = words;
    this.#forks.dropActive();
    this.#tellPreview(words);
  }

  /** Another fork steps, or none: what is out and what waits is of the one before. */
  #another(): void {
    this.#serial++;
    for (const queued of this.queued) this.device.queue.withdraw(queued);
    this.queued = [];
  }

  #clear(): void {
    this.#forks.dropActive();
    this.#forks.dropMedia();
    this.#another();
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

  #request(): RedirectRequest {
    return { requestId: this.sessionId, prompt: this.#draft!.prompt, adapter: this.#forks.adapter, seamless: false, conditioningVersion: DRAFT_VERSION };
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
