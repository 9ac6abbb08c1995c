import type { Clock, Timer } from '../../observe/clock.ts';
import type { MediaTime90k } from '../../streams/media_time.ts';
import type { KeptBranch, KeptStory, KeptTensor, StorageWrite } from '../../streams/storage_messages.ts';
import type { BlockPool } from '../memory/BlockPool.ts';
import type { BlockId } from '../model/work.ts';
import type { ProgramState } from '../programs/RealtimeProgram.ts';
import type { KeptChunkPart, KeptSnapshotPart, StoryKeeping } from '../programs/StoryKeeping.ts';
import type { SessionDependencies, SessionOpening } from './session_opening.ts';
import type { ChunkRecords } from './ChunkRecords.ts';
import type { StoryOutlet } from './StoryOutlet.ts';

export interface StoryRecorderOptions {
  readonly sessionId: string;
  readonly keeping: StoryKeeping<ProgramState>;
  readonly outlet: StoryOutlet;
  readonly pool: BlockPool;
  readonly clock: Clock;
  readonly records: ChunkRecords;
  readonly snapshotChunks: number;
  /** The branch that it goes on with, and how many there are. */
  readonly branch?: number;
  readonly branches?: number;
  /** The last chunk that is kept already. */
  readonly lastChunk?: number;
  /** What is kept has a gap from this chunk on, or (null) goes on again. */
  readonly behind: (fromChunk: number | null, reason?: string) => void;
}

export type ChunkWrite = Extract<StorageWrite, { readonly type: 'chunk' | 'part' }>;

/** Between the copies of a snapshot's tensors: whatever else the engine has to do comes first. */
const COPY_INTERVAL_MS = 1;

/**
 * Hands what is committed to the storage thread: each chunk as it is committed, copied out of the executor's memory (some tens of kilobytes), and every so
 * many chunks a snapshot (some megabytes), held by reference and copied a tensor at a time.
 *
 * Where the storage can't follow, chunks wait in its inbox up to a bound; beyond it they are left out, which is told at once, and keeping begins again with a snapshot when
 * half of the bound is free. What is left out was never reported as durable.
 */
export class StoryRecorder {
  readonly #options: StoryRecorderOptions;
  #lastSnapshot = -Infinity;
  /** The last chunk of the story that was sent; -1: none. */
  #lastChunk: number;
  #copying: { readonly blocks: readonly BlockId[]; timer: Timer } | null = null;
  #behind = false;
  #closed = false;
  #branch: number;
  #branches: number;

  constructor(options: StoryRecorderOptions) {
    this.#options = options;
    this.#branch = options.branch ?? 0;
    this.#branches = options.branches ?? 1;
    this.#lastChunk = options.lastChunk ?? -1;
  }

  /** A version was committed; its blocks are there during the call. Never throws: a story that can't be kept goes on, and it is told. */
  committed(version: ProgramState, epoch: number): void {
    const { sessionId, keeping, outlet, behind } = this.#options;
    if (this.#closed || (this.#behind && !outlet.hasEased(sessionId))) return;
    try {
      const part = keeping.chunk(version);
      if (part !== null) this.#keep(part, version, epoch);
    } catch (error) {
      if (!this.#behind) behind(version.chunk, error instanceof Error ? error.message : String(error));
      this.#behind = true;
    }
  }

  /** Where what is kept ends. */
  get end(): { readonly branch: number; readonly chunk: number } {
    return { branch: this.#branch, chunk: this.#lastChunk };
  }

  /** What is kept of another session up to a chunk is this one's as well. */
  copyFrom(from: string, { branch, chunk: throughChunk }: StoryRecorder['end']): void {
    this.#options.outlet.offer({ type: 'fork', sessionId: this.#options.sessionId, from, branch, throughChunk }, []);
    this.#lastChunk = throughChunk;
  }

  /** The chunk that ends at a version, as it would be kept; null inside of one. To be {@link put}, or not. */
  copyOf(version: ProgramState, epoch: number): ChunkWrite | null {
    const part = this.#options.keeping.chunk(version);
    return part === null ? null : this.#recorded(part, epoch);
  }

  /** Up to where the story can be gone on from if nothing comes of it after a version: before its position, where that is inside a chunk. */
  wholeUpTo(version: ProgramState): MediaTime90k {
    const part = this.#options.keeping.seen(version);
    return part?.chunk === version.chunk ? part.start90k : version.position90k;
  }

  /** What was seen of the chunk that a version lies in; null at the end of one. To be {@link put}, or not. */
  partOf(version: ProgramState, epoch: number): ChunkWrite | null {
    const { sessionId, keeping, records } = this.#options;
    const part = keeping.seen(version);
    return part === null || part.chunk !== version.chunk ? null : { type: 'part', sessionId, branch: this.#branch, chunk: records.record(part, epoch) };
  }

  put(write: ChunkWrite): void {
    this.#options.outlet.offer(write, write.chunk.tensors);
  }

  /** What is kept from here on is of another branch. Returns its number. */
  branchOff(at: Omit<KeptBranch, 'branch' | 'parent'>): number {
    const { sessionId, outlet } = this.#options;
    const branch = this.#branches++;
    outlet.offer({ type: 'branch', sessionId, branch: { ...at, branch, parent: this.#branch } }, []);
    this.#branch = branch;
    this.#lastChunk = Math.min(this.#lastChunk, at.fromChunk - 1);
    // A snapshot of what came after doesn't lead to it.
    if (this.#lastSnapshot >= at.fromChunk) this.#lastSnapshot = at.fromChunk - 1;
    return branch;
  }

  #keep(part: KeptChunkPart, version: ProgramState, epoch: number): void {
    const { outlet, clock, snapshotChunks, behind, keeping } = this.#options;
    const beginMs = clock.now();
    const { chunk } = part;
    const write = this.#recorded(part, epoch);
    const taken = outlet.offer(write, write.chunk.tensors);
    if (taken) this.#lastChunk = chunk;
    if (taken === this.#behind) {
      this.#behind = !taken;
      if (taken) this.#lastSnapshot = -Infinity;
      behind(taken ? null : chunk, 'the storage does not follow');
    }
    const tookMs = clock.now() - beginMs;
    outlet.spent.ms += tookMs;
    outlet.spent.chunks++;
    outlet.spent.longestMs = Math.max(outlet.spent.longestMs, tookMs);
    if (taken && this.#copying === null && chunk - this.#lastSnapshot >= snapshotChunks) this.#begin(keeping.snapshot(version));
  }

  #recorded(part: KeptChunkPart, epoch: number): ChunkWrite {
    const { sessionId, records } = this.#options;
    return { type: 'chunk', sessionId, branch: this.#branch, chunk: records.record(part, epoch) };
  }

  /** Lets go of what it holds; idempotent. */
  close(): void {
    this.#closed = true;
    this.#copying?.timer.cancel();
    this.#release();
  }

  #begin(part: KeptSnapshotPart): void {
    const blocks = Object.values(part.blocks);
    this.#options.pool.retain(blocks);
    this.#lastSnapshot = part.chunk;
    const branch = this.#branch;
    this.#copying = { blocks, timer: this.#later(() => this.#copyNext(branch, part, Object.entries(part.blocks), [])) };
  }

  #copyNext(branch: number, part: KeptSnapshotPart, left: readonly (readonly [string, BlockId])[], done: readonly KeptTensor[]): void {
    const { outlet, sessionId, clock } = this.#options;
    if (this.#copying === null) return;
    const [next, ...rest] = left;
    if (next !== undefined) {
      const beginMs = clock.now();
      const tensors = [...done, this.#options.records.copy(...next)];
      outlet.spent.ms += clock.now() - beginMs;
      this.#copying.timer = this.#later(() => this.#copyNext(branch, part, rest, tensors));
      return;
    }
    this.#release();
    // Where it doesn't fit there is none this time: chunks go on from the one before.
    outlet.offer({ type: 'snapshot', sessionId, branch, snapshot: { chunk: part.chunk, data: JSON.stringify(part.data), tensors: done } }, done);
  }

  #release(): void {
    if (this.#copying === null) return;
    this.#options.pool.release(this.#copying.blocks);
    this.#copying = null;
  }

  #later(run: () => void): Timer {
    const { clock } = this.#options;
    return clock.schedule(clock.now() + COPY_INTERVAL_MS, run);
  }
}

/** For a session whose story is kept; null where there is nowhere to keep it, or nothing that could be read back. */
export function openRecorder({ sessionId, program, device, keep, records, clock, toControl, story }: Pick<SessionOpening, 'sessionId' | 'program' | 'device'> & Pick<SessionDependencies, 'keep' | 'clock' | 'toControl'> & { readonly records: ChunkRecords | null; readonly story: Pick<KeptStory, 'branch' | 'branches'> & { readonly lastChunk: number } }): StoryRecorder | null {
  const { pool } = device;
  if (keep === null || program.keeping === undefined || records === null) return null;
  return new StoryRecorder({
    sessionId,
    keeping: program.keeping,
    ...keep,
    ...story,
    pool,
    clock,
    records,
    behind: (behindFromChunk, reason) => toControl({ type: 'session.keeping', sessionId, behindFromChunk, ...(behindFromChunk === null || reason === undefined ? {} : { reason }) }),
  });
}
