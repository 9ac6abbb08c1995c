import { createHash } from 'node:crypto';
import type { Clock, Timer } from '../observe/clock.ts';
import { SegueError } from '../protocol/errors.ts';
import type { FrameReceipt } from '../protocol/frame_receipt.ts';
import { adaptersOf, keptFrame, type KeptFrame } from '../realtime-programs/kept_frame.ts';
import { frameDuration90k, type MediaTime90k } from '../streams/media_time.ts';
import type { EngineCard, EngineToControl } from '../streams/messages.ts';
import type { KeptChunk } from '../streams/storage_messages.ts';
import type { EnginePort, PromptReader } from './ports.ts';
import type { SessionArchive } from './SessionArchive.ts';

type EngineAnswer = Extract<EngineToControl, { type: 'frame.found' | 'frame.decoded' }>;
type EngineQuestion = 'frame.find' | 'frame.decode';

/** A session as far as its frames concern it. */
export interface FrameSession {
  readonly program: string;
  readonly seed: number;
  /** Null: it has ended, or nobody has come back to it. */
  readonly presented90k: MediaTime90k | null;
  /** Branch in force; null likewise. */
  readonly branch: number | null;
}

export interface PresentedFramesOptions {
  readonly engine: EnginePort;
  readonly archive: SessionArchive | null;
  readonly clock: Clock;
  readonly card: EngineCard;
  readonly prompts: PromptReader;
  /** Whose frames a session shows: its own, or those of the one that it plays, as far as it does. */
  readonly source: (id: string) => { readonly id: string; readonly to90k: MediaTime90k | null };
  /** Of a session that this server knows of, live or not; throws session_not_found. */
  readonly session: (id: string) => FrameSession;
}

/** A frame that was presented, with the chunk that it was kept in. */
export interface PresentedFrame {
  readonly session: FrameSession & { readonly id: string };
  readonly media90k: MediaTime90k;
  readonly chunk: KeptChunk;
  /** Of the story that it is part of. */
  readonly branch: number;
  readonly frame: KeptFrame;
  /** SHA-256 of its latents. */
  readonly sha256: string;
}

/** Longer than the engine itself waits for a frame to be decoded. */
const WATCHDOG_MS = 12_000;

/** Frames that were presented: what made them, and their pictures, decoded again from what is kept. Also of sessions that have ended and are kept. */
export class PresentedFrames {
  readonly #options: PresentedFramesOptions;
  readonly #frame90k: number;
  readonly #questions = new Map<number, { readonly resolve: (answer: EngineAnswer) => void; readonly watchdog: Timer }>();
  #asked = 0;

  constructor(options: PresentedFramesOptions) {
    this.#options = options;
    this.#frame90k = frameDuration90k(options.card.format);
  }

  receive(answer: EngineAnswer): void {
    const question = this.#questions.get(answer.request);
    this.#questions.delete(answer.request);
    question?.watchdog.cancel();
    question?.resolve(answer);
  }

  /** @param branch a future that was left, by its number; by default the story in force. Rejects with session_not_found, not_presented, not_kept, timed_out, engine_unavailable. */
  async find(asked: string, media90k: MediaTime90k, branch?: number): Promise<PresentedFrame> {
    const { archive, source } = this.#options;
    const { id, to90k } = source(asked);
    if (to90k !== null && media90k >= to90k) throw new SegueError('not_presented', `the replay goes up to ${to90k}`, { param: 'media90k' });
    let kept = (await archive?.chunkAt(id, media90k, branch)) ?? null;
    const session = kept?.head == null ? this.#options.session(id) : { program: kept.head.program, seed: kept.head.seed, ...this.#liveOf(id) };
    const { presented90k } = session;
    const inForce = branch === undefined || branch === session.branch;
    if (inForce && presented90k !== null && media90k >= presented90k) throw new SegueError('not_presented', `the session has been presented up to ${presented90k}`, { param: 'media90k' });
    let chunk = kept?.chunk ?? null;
    if (chunk === null && inForce && presented90k !== null) {
      const answer = await this.#ask('frame.find', (request) => ({ type: 'frame.find', request, sessionId: id, media90k }));
      chunk = answer.type === 'frame.found' ? answer.chunk : null;
      // It may have become whole in the meantime: its record was sent before the engine answered.
      if (chunk === null && archive !== null) chunk = (kept = await archive.chunkAt(id, media90k, branch)).chunk;
    }
    if (chunk === null) throw new SegueError('not_kept', notKept(kept?.from90k ?? null, kept?.head?.committed90k ?? null), { param: 'media90k' });
    const index = Math.floor((media90k - chunk.start90k) / this.#frame90k);
    const frame = keptFrame(chunk, index);
    const sha256 = createHash('sha256').update(new Uint8Array(frame.latents.data)).digest('hex');
    return { session: { id, ...session }, branch: kept?.branch ?? session.branch ?? 0, media90k: chunk.start90k + index * this.#frame90k, chunk, frame, sha256 };
  }

  receipt({ session, branch, media90k, chunk, frame, sha256 }: PresentedFrame): FrameReceipt {
    const { card, prompts } = this.#options;
    const { under, adapter, origin } = frame;
    const frames = Array.from({ length: Math.round((chunk.end90k - chunk.start90k) / this.#frame90k) }, (_, index) => keptFrame(chunk, index));
    const ids = (of: (one: KeptFrame) => readonly string[]): string[] => [...new Set(frames.flatMap(of))];
    return {
      session: session.id,
      branch,
      media90k,
      end90k: media90k + this.#frame90k,
      epoch: frame.epoch,
      chunk: chunk.chunk,
      frameInChunk: frame.frameInChunk,
      origin: frame.seeded ? 'seed' : 'generated',
      model: card.modelId,
      weightsVersion: frame.weightsVersion ?? card.weightsVersion,
      fingerprint: origin?.machine ?? card.fingerprint,
      adapter: adapter === null ? null : { id: adapter.id, scale: adapter.scale },
      adapterVersions: { ...adaptersOf(frame) },
      seed: session.seed,
      lineage: frame.lineage,
      conditioningVersion: frame.conditioningVersion,
      action: under === null ? null : { sequence: under.actionSequence, steer: under.steer, speed: under.speed },
      ...(under?.steps === undefined ? {} : { steps: under.steps }),
      plan: prompts.describePlan(frame.plan),
      mix: frame.mix.map(({ plan, weight }) => ({ ...prompts.describePlan(plan), weight })),
      requests: { started: ids(({ started }) => started), active: ids(({ active }) => active), completed: ids(({ completed }) => completed) },
      latents: { sha256, shape: [...frame.latents.dims] },
    };
  }

  /** RGB row by row, of the card's format. Rejects with at_capacity, timed_out, engine_unavailable, or what the engine can't decode it for. */
  async picture({ session, chunk, frame }: PresentedFrame): Promise<Uint8Array> {
    const { latents, frameInChunk } = frame;
    // Only what it is decoded from crosses.
    const sent: KeptChunk = { ...chunk, tensors: [latents] };
    const answer = await this.#ask('frame.decode', (request) => ({ type: 'frame.decode', request, program: session.program, chunk: sent, frame: frameInChunk }));
    if (answer.type !== 'frame.decoded') throw new SegueError('internal', 'the engine answered something else');
    if (answer.error !== undefined) throw SegueError.from(answer.error);
    return answer.rgb!;
  }

  #liveOf(id: string): Pick<FrameSession, 'presented90k' | 'branch'> {
    try {
      const { presented90k, branch } = this.#options.session(id);
      return { presented90k, branch };
    } catch {
      // Only on disk: what is kept of it was presented.
      return { presented90k: null, branch: null };
    }
  }

  #ask(what: EngineQuestion, question: (request: number) => Parameters<EnginePort['send']>[0]): Promise<EngineAnswer> {
    const { engine, clock } = this.#options;
    const request = ++this.#asked;
    const { promise, resolve, reject } = Promise.withResolvers<EngineAnswer>();
    const watchdog = clock.schedule(clock.now() + WATCHDOG_MS, () => {
      this.#questions.delete(request);
      reject(new SegueError('timed_out', `the engine did not answer ${what}`, { retryAfterMs: 1_000 }));
    });
    this.#questions.set(request, { resolve, watchdog });
    if (!engine.send(question(request))) {
      this.#questions.delete(request);
      watchdog.cancel();
      reject(new SegueError('engine_unavailable', 'the engine is gone'));
    }
    return promise;
  }
}

function notKept(from90k: MediaTime90k | null, to90k: MediaTime90k | null): string {
  if (from90k === null || to90k === null) return 'nothing of that is kept';
  return `what is kept of the session goes from ${from90k} to ${to90k}`;
}
