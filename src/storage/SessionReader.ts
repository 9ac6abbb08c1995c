import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { isDeepStrictEqual } from 'node:util';
import { SegueError } from '../protocol/errors.ts';
import type { KeptRange } from '../streams/kept_range.ts';
import type { MediaTime90k } from '../streams/media_time.ts';
import type { KeptBranch, KeptChunk, KeptHead, KeptSnapshot, KeptStory, KeptTensor, KeptWorld, StoryFingerprint, VersionSpan } from '../streams/storage_messages.ts';
import { clipped, storyPath, type PathSegment } from './story_path.ts';

/** As many as a live session keeps of each. */
const EVENTS = 512;
const REQUESTS = 1_024;
const TURNS = 256;
/** More than any story has. */
const MAX_CHUNK = Number.MAX_SAFE_INTEGER;

const QUERIES = {
  heads: 'SELECT id, created_at, program, seed, fingerprint, ended_at, reason, touched_ms, committed_90k, bytes FROM sessions ORDER BY id',
  head: 'SELECT id, created_at, program, seed, fingerprint, ended_at, reason, touched_ms, committed_90k, bytes FROM sessions WHERE id = ?',
  session: 'SELECT * FROM sessions WHERE id = ?',
  events: 'SELECT sequence, type, at, data FROM events WHERE session = ? ORDER BY sequence DESC LIMIT ?',
  requests: 'SELECT * FROM requests WHERE session = ? ORDER BY ordinal DESC LIMIT ?',
  turns: 'SELECT ordinal, turn FROM turns WHERE session = ? ORDER BY ordinal DESC LIMIT ?',
  spans: 'SELECT chunk, start_90k, end_90k FROM chunks WHERE session = ? AND branch = ? AND chunk BETWEEN ? AND ? AND end_90k > ? AND start_90k < ? ORDER BY chunk',
  branches: 'SELECT branch, parent, from_chunk AS fromChunk, from_90k AS from90k, left_90k AS left90k, request AS requestId, epoch, lineage FROM branches WHERE session = ? ORDER BY branch',
  inForce: 'SELECT branch, fingerprint, lineage FROM sessions WHERE id = ?',
  last: 'SELECT max(chunk) AS chunk FROM chunks WHERE session = ? AND branch = ? AND chunk BETWEEN ? AND ?',
  lastBefore: 'SELECT max(chunk) AS chunk FROM chunks WHERE session = ? AND branch = ? AND chunk BETWEEN ? AND ? AND end_90k <= ?',
  chunkAt: 'SELECT * FROM chunks WHERE session = ? AND branch = ? AND chunk BETWEEN ? AND ? AND start_90k <= ? AND end_90k > ? ORDER BY chunk DESC LIMIT 1',
  partAt: 'SELECT * FROM parts WHERE session = ? AND branch = ? AND chunk BETWEEN ? AND ? AND start_90k <= ? AND end_90k > ? ORDER BY chunk DESC LIMIT 1',
  versions: `SELECT chunk, start_90k, end_90k, json_extract(data, '$.origin.weightsVersion') AS weights, json_extract(data, '$.steps[#-1].adapter') AS adapter
    FROM chunks WHERE session = ? AND branch = ? AND chunk BETWEEN ? AND ? ORDER BY chunk`,
  span: 'SELECT start_90k AS start90k, end_90k AS end90k FROM chunks WHERE session = ? AND branch = ? AND chunk = ?',
  chunks: 'SELECT * FROM chunks WHERE session = ? AND branch = ? AND chunk BETWEEN ? AND ? ORDER BY chunk',
  snapshots: 'SELECT chunk, data FROM snapshots WHERE session = ? AND branch = ? AND chunk BETWEEN ? AND ? ORDER BY chunk DESC LIMIT 1',
  chunkNumbers: 'SELECT chunk FROM chunks WHERE session = ? AND branch = ? AND chunk BETWEEN ? AND ? ORDER BY chunk',
  snapshotHeads: 'SELECT chunk, data FROM snapshots WHERE session = ? AND branch = ? AND chunk BETWEEN ? AND ? ORDER BY chunk',
  tensors: 'SELECT name, dims, data FROM tensors WHERE session = ? AND owner = ? AND branch = ? AND chunk = ? ORDER BY rowid',
} as const;

type Row = Record<string, unknown>;

/** Reads sessions back. Throws what SQLite throws. */
export class SessionReader {
  readonly #queries: Readonly<Record<keyof typeof QUERIES, StatementSync>>;

  constructor(database: DatabaseSync) {
    this.#queries = Object.fromEntries(Object.entries(QUERIES).map(([name, sql]) => [name, database.prepare(sql)])) as Record<keyof typeof QUERIES, StatementSync>;
  }

  heads(): KeptHead[] {
    return (this.#queries.heads.all() as Row[]).map(headOf);
  }

  head(sessionId: string): KeptHead | null {
    const row = this.#queries.head.get(sessionId) as Row | undefined;
    return row === undefined ? null : headOf(row);
  }

  /** The chunk of a branch's story in which a media time lies, as far as it was seen where it never became whole; null where it isn't kept. @param branch by default the one in force. */
  chunkAt(sessionId: string, media90k: MediaTime90k, branch = this.#inForce(sessionId)): { readonly branch: number; readonly chunk: KeptChunk } | null {
    for (const segment of this.#segments(sessionId, branch).reverse()) {
      const row = this.#queries.chunkAt.get(sessionId, segment.branch, segment.from, segment.to, media90k, media90k) as Row | undefined;
      if (row !== undefined) return { branch: segment.branch, chunk: this.#chunk(sessionId, row) };
      const part = this.#queries.partAt.get(sessionId, segment.branch, segment.from, segment.to, media90k, media90k) as Row | undefined;
      if (part !== undefined) return { branch: segment.branch, chunk: this.#chunk(sessionId, part, 'part') };
    }
    return null;
  }

  /** Of the story in force: from the first chunk that reaches into a stretch of time to the last one, with the gaps between them; null where there is none. */
  range(sessionId: string, from90k: MediaTime90k, to90k: MediaTime90k): Omit<KeptRange, 'sessionId'> | null {
    const below90k = Math.min(to90k, Number.MAX_SAFE_INTEGER);
    const rows = this.#segments(sessionId).flatMap(({ branch, from, to }) => this.#queries.spans.all(sessionId, branch, from, to, from90k, below90k) as { chunk: number; start_90k: number; end_90k: number }[]);
    const [first, last] = [rows[0], rows.at(-1)];
    if (first === undefined || last === undefined) return null;
    const gaps = rows.slice(1).flatMap(({ start_90k: start90k }, index) => (start90k > rows[index]!.end_90k ? [{ from90k: rows[index]!.end_90k, to90k: start90k }] : []));
    return { chunk: first.chunk, from90k: first.start_90k, to90k: Math.min(last.end_90k, to90k), ...(gaps.length === 0 ? {} : { gaps }) };
  }

  /** What the story in force was made with, in stretches, oldest first. Chunks of before it was written down are of the session's own weights. */
  versions(sessionId: string): VersionSpan[] {
    const { weightsVersion: first = '' } = this.head(sessionId)?.fingerprint ?? {};
    const spans: VersionSpan[] = [];
    for (const row of this.#segments(sessionId).flatMap(({ branch, from, to }) => this.#queries.versions.all(sessionId, branch, from, to) as Row[])) {
      const [from90k, to90k] = [row['start_90k'] as number, row['end_90k'] as number];
      const weightsVersion = (row['weights'] as string | null) ?? first;
      const adapter = row['adapter'] === null ? null : (JSON.parse(row['adapter'] as string) as { readonly id: string; readonly scale: number; readonly version: string });
      const adapterVersions: VersionSpan['adapterVersions'] = adapter === null ? {} : { [adapter.id]: `${adapter.version}@${adapter.scale}` };
      const last = spans.at(-1);
      if (last !== undefined && last.weightsVersion === weightsVersion && isDeepStrictEqual(last.adapterVersions, adapterVersions)) spans[spans.length - 1] = { ...last, to90k };
      else spans.push({ from90k, to90k, weightsVersion, adapterVersions });
    }
    return spans;
  }

  /** Weights by chunk, in stretches, oldest first; of a branch, by default the one in force. Chunks of before it was written down are of the session's own. */
  chunkWeights(sessionId: string, branch?: number): { from: number; to: number; readonly weightsVersion: string }[] {
    const { weightsVersion: own = '' } = this.head(sessionId)?.fingerprint ?? {};
    const spans: { from: number; to: number; readonly weightsVersion: string }[] = [];
    for (const row of this.#segments(sessionId, branch).flatMap((segment) => this.#queries.versions.all(sessionId, segment.branch, segment.from, segment.to) as Row[])) {
      const [chunk, weightsVersion] = [row['chunk'] as number, (row['weights'] as string | null) ?? own];
      const last = spans.at(-1);
      if (last !== undefined && last.weightsVersion === weightsVersion) last.to = chunk;
      else spans.push({ from: chunk, to: chunk, weightsVersion });
    }
    return spans;
  }

  /** Media time at which what is kept of the story in force begins; null where nothing is. */
  begin90k(sessionId: string): MediaTime90k | null {
    const path = this.#path(sessionId, this.#inForce(sessionId));
    const [first] = this.extent(sessionId).chunks;
    return first === undefined ? null : (this.#span(sessionId, path, first)?.start90k ?? null);
  }

  /**
   * All that is needed to open a session again, or null where it isn't there. Its story goes back to the newest snapshot that leads to the last chunk without a
   * gap, and for `windowChunks` before the last chunk anyhow.
   */
  world(sessionId: string, windowChunks: number): KeptWorld | null {
    const row = this.#queries.session.get(sessionId) as Row | undefined;
    if (row === undefined) return null;
    const fingerprint = JSON.parse(row['fingerprint'] as string) as StoryFingerprint;
    return {
      session: {
        sessionId,
        createdAt: row['created_at'] as string,
        program: row['program'] as string,
        seed: row['seed'] as number,
        prompt: row['prompt'] as string | null,
        image: row['image'] === null ? null : shared(row['image'] as Uint8Array),
        fingerprint,
        options: row['options'] as string,
      },
      events: (this.#queries.events.all(sessionId, EVENTS) as unknown as KeptWorld['events'][number][]).map((event) => ({ ...event })).reverse(),
      requests: (this.#queries.requests.all(sessionId, REQUESTS) as Row[])
        .map((request) => ({
          requestId: request['id'] as string,
          kind: request['kind'] as string,
          body: request['body'] as string,
          epoch: request['epoch'] as number,
          conditioningVersion: request['conditioning_version'] as number,
          answers: request['answers'] as string,
          done: request['done'] === 1,
        }))
        .reverse(),
      turns: (this.#queries.turns.all(sessionId, TURNS) as unknown as KeptWorld['turns'][number][]).map((turn) => ({ ...turn })).reverse(),
      branches: this.branches(sessionId),
      story: { fingerprint, ...this.#story(sessionId, this.#inForce(sessionId), windowChunks, Infinity) },
    };
  }

  /** Oldest first, without the first one, which leaves no other. */
  branches(sessionId: string): KeptBranch[] {
    return (this.#queries.branches.all(sessionId) as (Omit<KeptBranch, 'lineage'> & { readonly lineage: number | null })[]).map(({ lineage, ...branch }) => ({ ...branch, ...(lineage === null ? {} : { lineage }) }));
  }

  /**
   * The story in force up to the end of the last whole chunk at or before a moment: a window of chunks, and the nearest snapshot with all that leads from it where it is to be
   * `exact`. Null where no chunk ends by then, because the story had just begun.
   * @throws {SegueError} session_not_found, not_kept.
   */
  storyUpTo(sessionId: string, windowChunks: number, to90k: number, exact: boolean): KeptStory | null {
    const row = this.#queries.inForce.get(sessionId) as Row | undefined;
    if (row === undefined) throw new SegueError('session_not_found', `nothing is kept of session ${sessionId.slice(0, 64)}`);
    const branch = this.#inForce(sessionId);
    const path = this.#path(sessionId, branch);
    const last = this.#last(sessionId, path, to90k);
    if (last === null || to90k >= last.end90k + (last.end90k - last.start90k)) {
      const [first] = this.extent(sessionId, branch).chunks;
      const span = first === undefined ? null : this.#span(sessionId, path, first);
      if (last === null && span !== null && to90k < span.end90k - span.start90k) return null;
      throw new SegueError('not_kept', `the story is not kept at ${to90k}${span === null ? '' : `: it begins at ${span.start90k}, and what the storage could not follow with is missing`}`, { param: 'media90k' });
    }
    const { chunks, snapshot, ...kept } = this.#story(sessionId, branch, windowChunks, last.chunk);
    const fingerprint = JSON.parse(row['fingerprint'] as string) as StoryFingerprint;
    return exact ? { fingerprint, chunks, snapshot, ...kept } : { fingerprint, chunks: chunks.slice(-windowChunks - 1), snapshot: null, ...kept };
  }

  /** Chunks `from` to `to` of a branch's story, both included, as far as they are there. @param branch by default the one in force. */
  chunks(sessionId: string, from: number, to: number, branch = this.#inForce(sessionId)): KeptChunk[] {
    return this.#chunks(sessionId, this.#path(sessionId, branch), from, to);
  }

  /** Of what a branch's story is kept: numbers of its chunks, and its snapshots without their tensors; oldest first. */
  extent(sessionId: string, branch = this.#inForce(sessionId)): { readonly chunks: readonly number[]; readonly snapshots: readonly Pick<KeptSnapshot, 'chunk' | 'data'>[] } {
    const segments = this.#segments(sessionId, branch);
    return {
      chunks: segments.flatMap((segment) => (this.#queries.chunkNumbers.all(sessionId, segment.branch, segment.from, segment.to) as { chunk: number }[]).map(({ chunk }) => chunk)),
      snapshots: segments.flatMap((segment) => (this.#queries.snapshotHeads.all(sessionId, segment.branch, segment.from, segment.to) as { chunk: number; data: string }[]).map(({ chunk, data }) => ({ chunk, data }))),
    };
  }

  /** The newest snapshot of a branch's story at or before a chunk. */
  snapshot(sessionId: string, atOrBefore: number, branch = this.#inForce(sessionId)): KeptSnapshot | null {
    const head = this.#snapshotHead(sessionId, this.#path(sessionId, branch), atOrBefore);
    return head === null ? null : { chunk: head.chunk, data: head.data, tensors: this.#tensors(sessionId, 'snapshot', head.branch, head.chunk) };
  }

  #inForce(sessionId: string): number {
    return (this.#queries.inForce.get(sessionId) as { branch: number } | undefined)?.branch ?? 0;
  }

  #segments(sessionId: string, branch = this.#inForce(sessionId)): ReturnType<typeof clipped> {
    return clipped(this.#path(sessionId, branch), 0, MAX_CHUNK);
  }

  #path(sessionId: string, branch: number): PathSegment[] {
    return storyPath(this.branches(sessionId), branch);
  }

  #chunks(sessionId: string, path: readonly PathSegment[], from: number, to: number): KeptChunk[] {
    return clipped(path, from, to).flatMap((segment) => (this.#queries.chunks.all(sessionId, segment.branch, segment.from, segment.to) as Row[]).map((row) => this.#chunk(sessionId, row)));
  }

  #snapshotHead(sessionId: string, path: readonly PathSegment[], atOrBefore: number): { readonly branch: number; readonly chunk: number; readonly data: string } | null {
    for (const { branch, from, to } of clipped(path, 0, atOrBefore).reverse()) {
      const row = this.#queries.snapshots.get(sessionId, branch, from, to) as { chunk: number; data: string } | undefined;
      if (row !== undefined) return { branch, ...row };
    }
    return null;
  }

  #span(sessionId: string, path: readonly PathSegment[], chunk: number): { readonly start90k: number; readonly end90k: number } | null {
    const [segment] = clipped(path, chunk, chunk);
    return segment === undefined ? null : ((this.#queries.span.get(sessionId, segment.branch, chunk) as { start90k: number; end90k: number } | undefined) ?? null);
  }

  /** The last chunk that ends by a moment. */
  #last(sessionId: string, path: readonly PathSegment[], to90k: number): { readonly chunk: number; readonly start90k: number; readonly end90k: number } | null {
    for (const { branch, from, to } of clipped(path, 0, MAX_CHUNK).reverse()) {
      const { chunk } = (to90k === Infinity ? this.#queries.last.get(sessionId, branch, from, to) : this.#queries.lastBefore.get(sessionId, branch, from, to, to90k)) as { chunk: number | null };
      if (chunk !== null) return { chunk, ...this.#span(sessionId, path, chunk)! };
    }
    return null;
  }

  #story(sessionId: string, branch: number, windowChunks: number, through: number): Omit<KeptStory, 'fingerprint'> {
    const path = this.#path(sessionId, branch);
    const known = this.branches(sessionId);
    const lineage = branch === 0 ? (this.#queries.inForce.get(sessionId) as { lineage: number | null }).lineage : (known.find((of) => of.branch === branch)?.lineage ?? null);
    const all = { branch, branches: Math.max(0, ...known.map((of) => of.branch)) + 1, ...(lineage === null ? {} : { lineage }) };
    const last = through === Infinity ? (this.#last(sessionId, path, Infinity)?.chunk ?? null) : through;
    if (last === null) return { chunks: [], snapshot: null, ...all };
    const head = this.#snapshotHead(sessionId, path, last);
    const chunks = withoutGap(this.#chunks(sessionId, path, Math.min(head?.chunk ?? last, last - windowChunks), last));
    const leadsOn = head !== null && head.chunk >= chunks[0]!.chunk;
    return { chunks, snapshot: leadsOn ? this.snapshot(sessionId, head.chunk, branch) : null, ...all };
  }

  #chunk(sessionId: string, row: Row, owner: 'chunk' | 'part' = 'chunk'): KeptChunk {
    const chunk = row['chunk'] as number;
    return {
      chunk,
      start90k: row['start_90k'] as number,
      end90k: row['end_90k'] as number,
      epoch: row['epoch'] as number,
      conditioningVersion: row['conditioning_version'] as number,
      data: row['data'] as string,
      tensors: this.#tensors(sessionId, owner, row['branch'] as number, chunk),
    };
  }

  #tensors(sessionId: string, owner: 'chunk' | 'part' | 'snapshot', branch: number, chunk: number): KeptTensor[] {
    return (this.#queries.tensors.all(sessionId, owner, branch, chunk) as Row[]).map((row) => ({ name: row['name'] as string, dims: JSON.parse(row['dims'] as string) as number[], data: shared(row['data'] as Uint8Array) }));
  }
}

function headOf(row: Row): KeptHead {
  return {
    sessionId: row['id'] as string,
    createdAt: row['created_at'] as string,
    program: row['program'] as string,
    seed: row['seed'] as number,
    fingerprint: JSON.parse(row['fingerprint'] as string) as StoryFingerprint,
    endedAt: row['ended_at'] as string | null,
    reason: row['reason'] as string | null,
    touchedMs: row['touched_ms'] as number,
    committed90k: row['committed_90k'] as number,
    bytes: row['bytes'] as number,
  };
}

/** The last of them that follow each other without a gap. */
function withoutGap(chunks: readonly KeptChunk[]): KeptChunk[] {
  const gap = chunks.findLastIndex(({ chunk }, index) => index > 0 && chunk !== chunks[index - 1]!.chunk + 1);
  return chunks.slice(Math.max(0, gap));
}

/** In memory that all threads share: it goes through the control and the engine thread to the executor, and nobody copies it again. */
function shared(bytes: Uint8Array): SharedArrayBuffer {
  const buffer = new SharedArrayBuffer(bytes.byteLength);
  new Uint8Array(buffer).set(bytes);
  return buffer;
}
