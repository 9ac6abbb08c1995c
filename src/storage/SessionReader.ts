import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { isDeepStrictEqual } from 'node:util';
import type { KeptRange } from '../streams/kept_range.ts';
import type { MediaTime90k } from '../streams/media_time.ts';
import type { KeptChunk, KeptHead, KeptSnapshot, KeptTensor, KeptWorld, StoryFingerprint, VersionSpan } from '../streams/storage_messages.ts';

/** As many as a live session keeps of each. */
const EVENTS = 512;
const REQUESTS = 1_024;
const TURNS = 256;

const QUERIES = {
  heads: 'SELECT id, created_at, program, seed, fingerprint, ended_at, reason, touched_ms, committed_90k, bytes FROM sessions ORDER BY id',
  head: 'SELECT id, created_at, program, seed, fingerprint, ended_at, reason, touched_ms, committed_90k, bytes FROM sessions WHERE id = ?',
  session: 'SELECT * FROM sessions WHERE id = ?',
  events: 'SELECT sequence, type, at, data FROM events WHERE session = ? ORDER BY sequence DESC LIMIT ?',
  requests: 'SELECT * FROM requests WHERE session = ? ORDER BY ordinal DESC LIMIT ?',
  turns: 'SELECT ordinal, turn FROM turns WHERE session = ? ORDER BY ordinal DESC LIMIT ?',
  chunkAt: 'SELECT * FROM chunks WHERE session = ? AND start_90k <= ? AND end_90k > ? ORDER BY chunk DESC LIMIT 1',
  versions: `SELECT start_90k, end_90k, json_extract(data, '$.origin.weightsVersion') AS weights, json_extract(data, '$.steps[#-1].adapter') AS adapter
    FROM chunks WHERE session = ? ORDER BY chunk`,
  spans: 'SELECT chunk, start_90k, end_90k FROM chunks WHERE session = ? AND end_90k > ? AND start_90k < ? ORDER BY chunk',
  begin: 'SELECT min(start_90k) AS start FROM chunks WHERE session = ?',
  last: 'SELECT max(chunk) AS chunk FROM chunks WHERE session = ?',
  chunks: 'SELECT * FROM chunks WHERE session = ? AND chunk BETWEEN ? AND ? ORDER BY chunk DESC',
  snapshots: 'SELECT chunk, data FROM snapshots WHERE session = ? AND chunk <= ? ORDER BY chunk DESC LIMIT 1',
  chunkNumbers: 'SELECT chunk FROM chunks WHERE session = ? ORDER BY chunk',
  snapshotHeads: 'SELECT chunk, data FROM snapshots WHERE session = ? ORDER BY chunk',
  tensors: 'SELECT name, dims, data FROM tensors WHERE session = ? AND owner = ? AND chunk = ? ORDER BY rowid',
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

  /** The chunk in which a media time lies; null where it isn't kept. */
  chunkAt(sessionId: string, media90k: MediaTime90k): KeptChunk | null {
    const row = this.#queries.chunkAt.get(sessionId, media90k, media90k) as Row | undefined;
    return row === undefined ? null : this.#chunk(sessionId, row);
  }

  /** From the first chunk that reaches into a stretch of time, as far as there is no gap; null where there is none. */
  range(sessionId: string, from90k: MediaTime90k, to90k: MediaTime90k): Omit<KeptRange, 'sessionId'> | null {
    const rows: { readonly chunk: number; readonly start90k: MediaTime90k; readonly end90k: MediaTime90k }[] = [];
    for (const row of this.#queries.spans.iterate(sessionId, from90k, Math.min(to90k, Number.MAX_SAFE_INTEGER)) as Iterable<Row>) {
      const [chunk, start90k, end90k] = [row['chunk'] as number, row['start_90k'] as number, row['end_90k'] as number];
      const last = rows.at(-1);
      if (last !== undefined && (chunk !== last.chunk + 1 || start90k !== last.end90k)) break;
      rows.push({ chunk, start90k, end90k });
    }
    const [first, last] = [rows[0], rows.at(-1)];
    return first === undefined || last === undefined ? null : { chunk: first.chunk, from90k: first.start90k, to90k: Math.min(last.end90k, to90k) };
  }

  /** What a story was made with, in stretches, oldest first. Chunks of before it was written down are of the session's own weights. */
  versions(sessionId: string): VersionSpan[] {
    const { weightsVersion: first = '' } = this.head(sessionId)?.fingerprint ?? {};
    const spans: VersionSpan[] = [];
    for (const row of this.#queries.versions.iterate(sessionId) as Iterable<Row>) {
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

  /** Media time at which what is kept of a story begins; null where nothing is. */
  begin90k(sessionId: string): MediaTime90k | null {
    return (this.#queries.begin.get(sessionId) as { start: number | null }).start;
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
      story: { fingerprint, ...this.#story(sessionId, windowChunks) },
    };
  }

  /** Chunks `from` to `to`, both included, as far as they are there. */
  chunks(sessionId: string, from: number, to: number): KeptChunk[] {
    return (this.#queries.chunks.all(sessionId, from, to) as Row[]).reverse().map((row) => this.#chunk(sessionId, row));
  }

  /** Of what a story is kept: numbers of its chunks, and its snapshots without their tensors; oldest first. */
  extent(sessionId: string): { readonly chunks: readonly number[]; readonly snapshots: readonly Pick<KeptSnapshot, 'chunk' | 'data'>[] } {
    return {
      chunks: (this.#queries.chunkNumbers.all(sessionId) as { chunk: number }[]).map(({ chunk }) => chunk),
      snapshots: (this.#queries.snapshotHeads.all(sessionId) as { chunk: number; data: string }[]).map(({ chunk, data }) => ({ chunk, data })),
    };
  }

  /** The newest snapshot at or before a chunk. */
  snapshot(sessionId: string, atOrBefore: number): KeptSnapshot | null {
    const row = this.#queries.snapshots.get(sessionId, atOrBefore) as { chunk: number; data: string } | undefined;
    return row === undefined ? null : { chunk: row.chunk, data: row.data, tensors: this.#tensors(sessionId, 'snapshot', row.chunk) };
  }

  #story(sessionId: string, windowChunks: number): { readonly chunks: readonly KeptChunk[]; readonly snapshot: KeptSnapshot | null } {
    const { chunk: last } = this.#queries.last.get(sessionId) as { chunk: number | null };
    if (last === null) return { chunks: [], snapshot: null };
    const snapshot = this.#queries.snapshots.get(sessionId, last) as { chunk: number } | undefined;
    const from = Math.min(snapshot?.chunk ?? last, last - windowChunks);
    const chunks: KeptChunk[] = [];
    for (const row of this.#queries.chunks.all(sessionId, from, last) as Row[]) {
      if (row['chunk'] !== last - chunks.length) break;
      chunks.push(this.#chunk(sessionId, row));
    }
    chunks.reverse();
    const leadsOn = snapshot !== undefined && snapshot.chunk >= chunks[0]!.chunk;
    return { chunks, snapshot: leadsOn ? this.snapshot(sessionId, snapshot.chunk) : null };
  }

  #chunk(sessionId: string, row: Row): KeptChunk {
    const chunk = row['chunk'] as number;
    return {
      chunk,
      start90k: row['start_90k'] as number,
      end90k: row['end_90k'] as number,
      epoch: row['epoch'] as number,
      conditioningVersion: row['conditioning_version'] as number,
      data: row['data'] as string,
      tensors: this.#tensors(sessionId, 'chunk', chunk),
    };
  }

  #tensors(sessionId: string, owner: 'chunk' | 'snapshot', chunk: number): KeptTensor[] {
    return (this.#queries.tensors.all(sessionId, owner, chunk) as Row[]).map((row) => ({ name: row['name'] as string, dims: JSON.parse(row['dims'] as string) as number[], data: shared(row['data'] as Uint8Array) }));
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

/** In memory that all threads share: it goes through the control and the engine thread to the executor, and nobody copies it again. */
function shared(bytes: Uint8Array): SharedArrayBuffer {
  const buffer = new SharedArrayBuffer(bytes.byteLength);
  new Uint8Array(buffer).set(bytes);
  return buffer;
}
