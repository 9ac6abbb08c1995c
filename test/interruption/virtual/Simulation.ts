/** Control, media and workers around a real EngineCore, on a virtual clock. Checks at every message what must hold at all times. */
import assert from 'node:assert/strict';
import { EngineCore } from '../../../src/engine/runtime/EngineCore.ts';
import type { EngineOptions } from '../../../src/engine/runtime/engine_options.ts';
import { fencing } from '../../../src/engine/scheduler/RequestScheduler.ts';
import type { ChunkData } from '../../../src/realtime-programs/ContinuationKeeping.ts';
import { SimulatedWorker, type SimulatedOutcome } from '../../../src/engine/runtime/SimulatedWorker.ts';
import type { WorkUnitBatch } from '../../../src/engine/model/work.ts';
import type { PreparedWeights } from '../../../src/engine/workers/Worker.ts';
import { VirtualClock } from '../../../src/observe/virtual_clock.ts';
import { SegueError } from '../../../src/protocol/errors.ts';
import type { AdapterInForce } from '../../../src/protocol/session_adapter.ts';
import type { MediaEvent } from '../../../src/streams/media_events.ts';
import type { EngineRequest, EngineToControl } from '../../../src/streams/messages.ts';
import { continuationModel } from '../../../src/realtime-programs/drive_model.ts';
import { VideoContinuation } from '../../../src/realtime-programs/VideoContinuation.ts';
import type { KeptBranch, KeptChunk, KeptSnapshot, KeptStory, ToStorage } from '../../../src/streams/storage_messages.ts';
import { batchMs, LANGUAGE, scriptedModel, scriptedValues, UNIT_MS, type ScriptedModel } from './scripted_model.ts';
import { SimulatedSession, type RequestBody } from './SimulatedSession.ts';

export interface SimulationOptions {
  readonly steps?: number;
  /** Whether the model may be served in one step; by default it may where it has more. */
  readonly reduces?: boolean;
  readonly slots?: number;
  /** How many times faster than a core the device is. */
  readonly speed?: number;
  /** Sessions take a video in: the program's strength. */
  readonly transform?: number;
  /** Plans are told token by token. */
  readonly aloud?: boolean;
  readonly engine?: Partial<EngineOptions>;
  /** How a reload comes by its weights. */
  readonly prepareWeights?: () => Promise<readonly PreparedWeights[] | null>;
  /** Decides how a batch goes; by default it takes what it is predicted to take. */
  readonly outcome?: (batch: WorkUnitBatch, predictedMs: number) => SimulatedOutcome;
}

/** The story in force, and what was left. */
interface KeptSide {
  chunks: KeptChunk[];
  snapshots: KeptSnapshot[];
  readonly branches: KeptBranch[];
  readonly left: { readonly branch: number; readonly chunk: KeptChunk }[];
  /** What was seen of chunks that never became whole. */
  readonly parts: { readonly branch: number; readonly chunk: KeptChunk }[];
}

const MODELS = new Map<string, ScriptedModel>();

export class Simulation {
  readonly clock = new VirtualClock();
  readonly worker: SimulatedWorker;
  readonly core: EngineCore;
  readonly sessions = new Map<string, SimulatedSession>();
  readonly messages: EngineToControl[] = [];
  /** What the storage side was given, by session. */
  readonly kept = new Map<string, KeptSide>();
  /** How a question for what is kept is answered: after so long, or not at all. */
  reading: () => { readonly delayMs: number; readonly fails: boolean } = () => ({ delayMs: 5, fails: false });
  readonly batches: number[] = [];
  keepTraces = false;
  /** Requests may overtake each other on their way to the engine. */
  unordered = false;
  /** What an assertion inside a callback found; thrown by the next `run`. */
  readonly #broken: unknown[] = [];
  readonly #model: ScriptedModel;
  readonly #slots: number;
  readonly #steps: number;

  constructor({ steps = 2, reduces = steps > 1, slots = 8, speed = 1, transform, aloud = false, engine = {}, prepareWeights, outcome = (_, deviceMs) => ({ deviceMs, answer: 'ok' }) }: SimulationOptions = {}) {
    const key = `${steps} ${reduces} ${speed}`;
    this.#model = MODELS.get(key) ?? scriptedModel(steps, speed, reduces);
    MODELS.set(key, this.#model);
    this.#slots = slots;
    this.#steps = steps;
    const { kernels, program, loaded, spec } = this.#model;
    this.worker = new SimulatedWorker({
      id: 'w0',
      clock: this.clock,
      loaded,
      kernels: kernels as Readonly<Record<string, NonNullable<(typeof kernels)['audio']>>>,
      values: scriptedValues,
      outcome: (batch) => {
        this.batches.push(batch.units.length);
        for (const { epoch, sessionId } of batch.units) {
          const session = this.sessions.get(sessionId);
          if (session !== undefined) this.#checked(() => assert.equal(epoch, session.words.epoch, 'no unit of an older epoch begins once the word is raised'));
        }
        return outcome(batch, batchMs(UNIT_MS[batch.component]! / speed, batch.units.length));
      },
    });
    this.core = new EngineCore({
      clock: this.clock,
      workers: [{ worker: this.worker, loaded }],
      kernels: Object.values(kernels),
      programs: { drive: transform === undefined && !aloud ? program : new VideoContinuation(continuationModel(spec, kernels, LANGUAGE), transform === undefined ? null : { strength: transform }, { aloud }) },
      components: Object.keys(spec.components),
      identity: { precision: 'fp32', parallelPlanHash: 'single' },
      options: engine,
      ...(prepareWeights === undefined ? {} : { prepareWeights }),
      toControl: (message) => this.#onControl(message),
      toMedia: (event) => this.#onMedia(event),
      toStorage: (message) => this.#checked(() => this.#keep(message)),
    });
    this.core.start();
  }

  open(sessionId = 's', prompt: string | null = 'scene 1', seed = 1, image: SharedArrayBuffer | null = null, adapter: AdapterInForce | null = null, story: KeptStory | null = null, plan: Readonly<Record<string, string>> | null = null): SimulatedSession {
    const { format, framesPerChunk } = this.#model.program;
    const session = new SimulatedSession({ sessionId, clock: this.clock, format, framesPerChunk, slots: this.#slots, toEngine: (message) => this.core.receiveMedia(message) });
    this.sessions.set(sessionId, session);
    this.kept.set(sessionId, { chunks: [], snapshots: [], branches: [], left: [], parts: [] });
    if (story !== null) session.startAt(story.chunks.at(-1)!.end90k);
    this.core.receive({ type: 'session.open', ...(story === null ? {} : { story }), ...(plan === null ? {} : { plan }), sessionId, model: this.#model.loaded.modelId, program: 'drive', seed, prompt, image, adapter, tenant: 't', channels: session.channels });
    return session;
  }

  /** Another session with the past of one, as far as it is in memory. */
  fork(from: SimulatedSession, sessionId: string, to90k: number, lineage = 2 ** 30 + this.sessions.size): SimulatedSession {
    const { format, framesPerChunk } = this.#model.program;
    const session = new SimulatedSession({ sessionId, clock: this.clock, format, framesPerChunk, slots: this.#slots, toEngine: (message) => this.core.receiveMedia(message) });
    this.sessions.set(sessionId, session);
    this.kept.set(sessionId, { chunks: [], snapshots: [], branches: [], left: [], parts: [] });
    this.core.receive({ type: 'session.open', fork: { from: from.sessionId, to90k }, lineage, sessionId, model: this.#model.loaded.modelId, program: 'drive', seed: 1, prompt: null, image: null, tenant: 't', channels: session.channels });
    return session;
  }

  /** Fences where the request fences, and hands it to the engine after `delayMs`: the time that the control thread takes. */
  request(session: SimulatedSession, requestId: string, body: RequestBody, delayMs = 0): void {
    const presented90k = session.held90k;
    const epoch = fencing(body as EngineRequest) ? session.fence() : session.words.epoch;
    const rewinds = body.request === 'rewind' ? { to90k: Math.min(body.to90k, presented90k) } : {};
    if (body.request === 'rewind') session.wanted.set(requestId, body.to90k);
    const request = { type: 'session.request', sessionId: session.sessionId, requestId, epoch, conditioningVersion: epoch, presented90k, ...body, ...rewinds } as EngineRequest;
    if (body.request !== 'adopt') session.asked(requestId);
    this.#deliver(session, () => {
      session.delivered(request);
      this.core.receive(request);
    }, delayMs);
  }

  /** What is being typed; null: emptied. */
  draft(session: SimulatedSession, draftId: string, prompt: string | null, { seamless = false, delayMs = 0 } = {}): void {
    this.#deliver(session, () => this.core.receive({ type: 'session.draft', sessionId: session.sessionId, draftId, prompt, seamless }), delayMs);
  }

  close(session: SimulatedSession, delayMs = 0): void {
    const { told } = session;
    this.#deliver(session, () => {
      session.words.markClosed();
      this.core.receive({ type: 'session.close', sessionId: session.sessionId, ...(told === null ? {} : { presented: told }) });
    }, delayMs);
  }

  async run(ms: number): Promise<void> {
    await this.clock.advanceTo(this.clock.now() + ms);
    if (this.#broken.length > 0) throw this.#broken[0];
  }

  /** Closes what is open and checks that nothing is left: no block, slot, reservation, answer or timer. */
  async finish(withinMs = 12_000): Promise<void> {
    for (const session of this.sessions.values()) if (!session.ended) this.close(session);
    await this.run(withinMs);
    for (const session of this.sessions.values()) session.checkEnd();
    assert.deepEqual(this.worker.violations, []);
    assert.equal(this.core.stats().sessions, 0);
    assert.equal(this.core.stats().blocksLive, this.core.cachedBlocks, 'every block but the cached ones is freed');
    assert.equal(this.worker.blocks, this.core.cachedBlocks, 'the worker holds what the engine counts');
    assert.equal(this.worker.attached, 0);
    this.core.close();
    assert.equal(this.clock.pending, 0, 'no timer is left');
  }

  /** In the order sent, as the control thread's messages are; or not, where `unordered`. */
  #deliver(session: SimulatedSession, run: () => void, delayMs: number): void {
    const atMs = this.unordered ? this.clock.now() + delayMs : Math.max(this.clock.now() + delayMs, session.lastDeliveryMs);
    session.lastDeliveryMs = atMs;
    if (atMs <= this.clock.now()) run();
    else this.clock.schedule(atMs, run);
  }

  /** As a disk would give it back now; null where nothing was kept yet. */
  story(sessionId: string, through = Infinity): KeptStory | null {
    const { branches, ...kept } = this.kept.get(sessionId)!;
    const chunks = kept.chunks.filter(({ chunk }) => chunk <= through);
    const last = chunks.at(-1);
    if (last === undefined) return null;
    const snapshot = kept.snapshots.findLast(({ chunk }) => chunk <= last.chunk) ?? null;
    const { modelId, weightsVersion, fingerprint: machine } = this.#model.loaded;
    return { fingerprint: { modelId, weightsVersion, adapterVersions: {}, machine }, chunks: chunks.filter(({ chunk }) => chunk >= Math.min(snapshot?.chunk ?? last.chunk, last.chunk - 7)), snapshot, branch: branches.at(-1)?.branch ?? 0, branches: branches.length + 1 };
  }

  /** What is kept is the story: chunk after chunk without a gap, each with all that it was made from. */
  #keep(message: ToStorage): void {
    assert.ok(message.type === 'write');
    const { write, number } = message;
    this.clock.schedule(this.clock.now() + 20, () => this.core.receiveStorage({ type: 'stored', through: number }));
    const side = 'sessionId' in write ? this.kept.get(write.sessionId)! : null;
    assert.ok(side !== null);
    const branch = side.branches.at(-1)?.branch ?? 0;
    if (write.type === 'snapshot') {
      // One that was being copied when the story went back is of what was left.
      if (write.branch === branch || write.snapshot.chunk < side.branches.find((later) => later.branch > write.branch)!.fromChunk) side.snapshots.push(write.snapshot);
      return;
    }
    if (write.type === 'branch') return this.#branch(side, write.branch);
    if (write.type === 'fork') {
      const { chunks, snapshots } = this.kept.get(write.from)!;
      side.chunks = chunks.filter(({ chunk }) => chunk <= write.throughChunk);
      side.snapshots = snapshots.filter(({ chunk }) => chunk <= write.throughChunk);
      return;
    }
    if (write.type === 'part') return void side.parts.push(write);
    assert.ok(write.type === 'chunk');
    assert.equal(write.branch, branch, 'of the branch in force');
    const { chunks } = side;
    const { chunk } = write;
    const before = chunks.at(-1);
    if (before !== undefined) assert.deepEqual([chunk.chunk, chunk.start90k], [before.chunk + 1, before.end90k], 'chunk after chunk');
    const { framesPerChunk } = this.#model.program;
    const { steps, frames, seeded, write: written, pinnedFrames, scene } = JSON.parse(chunk.data) as ChunkData;
    assert.equal(steps.length, seeded ? 0 : (steps[0]?.steps ?? this.#steps), 'every step of it');
    assert.equal(frames.length, framesPerChunk, 'every frame of it');
    if (chunk.chunk === 0 || written !== null) assert.equal(written === null, chunk.chunk === 0, 'how the one before was written');
    else assert.ok(seeded && scene.how === 'cut', 'only a cut begins without what came before');
    assert.equal(pinnedFrames > 0, chunk.tensors.some(({ name }) => name === 'pin'));
    for (const record of [...steps, ...(written === null ? [] : [written])]) assert.ok(record.plan['place'] !== undefined, 'the plan that it was made under');
    for (const { conditioningVersion, active = [] } of [...steps, ...frames] as readonly { conditioningVersion: number; active?: readonly string[] }[]) {
      assert.ok(conditioningVersion >= 0 && active.every((id) => !id.endsWith('/draft')), 'what was made ahead is kept as its request’s');
    }
    chunks.push(chunk);
  }

  #branch(side: KeptSide, branch: KeptBranch): void {
    assert.equal(branch.branch, side.branches.length + 1);
    assert.equal(branch.parent, side.branches.at(-1)?.branch ?? 0);
    side.branches.push(branch);
    for (const chunk of side.chunks.filter((kept) => kept.chunk >= branch.fromChunk)) side.left.push({ branch: branch.parent, chunk });
    side.chunks = side.chunks.filter(({ chunk }) => chunk < branch.fromChunk);
    side.snapshots = side.snapshots.filter(({ chunk }) => chunk < branch.fromChunk);
  }

  /** As the control thread does. */
  #answerStory({ sessionId, requestId, to90k, exact }: Extract<EngineToControl, { type: 'story.wanted' }>): void {
    const { delayMs, fails } = this.reading();
    this.clock.schedule(this.clock.now() + delayMs, () => {
      const message = { type: 'session.story', sessionId, requestId } as const;
      if (fails) return this.core.receive({ ...message, story: null, error: new SegueError('not_kept', 'it is gone').toBody() });
      const last = this.kept.get(sessionId)!.chunks.findLast(({ end90k }) => end90k <= to90k);
      const story = last === undefined ? null : this.story(sessionId, last.chunk);
      this.core.receive({ ...message, story: story === null || exact ? story : { ...story, chunks: story.chunks.slice(-8), snapshot: null } });
    });
  }

  #onControl(message: EngineToControl): void {
    if (message.type === 'story.wanted') this.#answerStory(message);
    if (message.type === 'session.keeping') this.#checked(() => assert.fail(`not kept from chunk ${message.behindFromChunk}: ${message.reason}`));
    if (message.type !== 'engine.stats' && (message.type !== 'trace' || this.keepTraces)) this.messages.push(message);
    if ('sessionId' in message) this.#checked(() => this.sessions.get(message.sessionId)?.onControl(message));
  }

  #onMedia(event: MediaEvent): void {
    this.#checked(() => this.sessions.get(event.sessionId)!.onMedia(event));
  }

  #checked(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.#broken.push(error);
    }
  }
}
