import { rmSync } from 'node:fs';
import { afterEach, beforeEach } from 'node:test';
import { createLogger } from '../../src/observe/log.ts';
import { SessionArchive } from '../../src/sessions/SessionArchive.ts';
import type { RegistryOptions } from '../../src/sessions/SessionRegistry.ts';
import { SessionStorage } from '../../src/storage/SessionStorage.ts';
import type { KeptChunk } from '../../src/streams/storage_messages.ts';
import { keptChunk, temporaryDirectory } from '../storage/storage_rig.ts';
import { CARD } from './scripted_links.ts';
import { SessionRig } from './session_rig.ts';

const FINGERPRINT = { modelId: CARD.modelId, weightsVersion: CARD.weightsVersion, adapterVersions: {}, machine: CARD.fingerprint };
export const RESUME_MS = 600_000;

/** One life of a server; `kill` ends it as a kill does: nothing more is written. */
export class KeptLife {
  readonly rig: SessionRig;
  readonly storage: SessionStorage;
  #engineWrites = 0;
  /** The disk stands still. */
  stuck = false;

  constructor(directory: string, options: Partial<RegistryOptions> & { readonly capacity?: number } = {}) {
    const log = createLogger({ level: 'silent' });
    const port = { send: (message: Parameters<SessionStorage['receive']>[1]) => (queueMicrotask(() => this.stuck || this.storage.receive('control', message)), true) };
    let archive: SessionArchive | null = null;
    const clock = () => this.rig.clock;
    const shared = { now: () => clock().now(), schedule: (atMs: number, run: () => void) => clock().schedule(atMs, run) };
    archive = new SessionArchive({ storage: port, clock: shared, log, fingerprint: () => FINGERPRINT, windowChunks: 7 });
    this.rig = new SessionRig({ archive, resumeMs: RESUME_MS, ...options });
    this.storage = new SessionStorage({ directory, retention: { maxAgeMs: 1e12, sessionBytes: 1e9 }, clock: this.rig.clock, log, tell: (writer, message) => writer === 'control' && archive?.receive(message) });
  }

  /** What the engine would have kept. */
  chunks(sessionId: string, from: number, to: number, made: (chunk: number) => KeptChunk = keptChunk): void {
    for (let chunk = from; chunk <= to; chunk++) this.storage.receive('engine', { type: 'write', number: ++this.#engineWrites, write: { type: 'chunk', sessionId, branch: 0, chunk: made(chunk) } });
  }

  kill(): void {
    this.storage.flush();
    this.stuck = true;
    this.storage.close();
  }
}

/** Lives of one server after the other in a directory of each test's own; what is left of them goes with it. Within `describe`. */
export function keptLives() {
  let directory: string;
  const lives: KeptLife[] = [];
  beforeEach(() => {
    directory = temporaryDirectory();
  });
  afterEach(() => {
    for (const life of lives.splice(0)) life.kill();
    rmSync(directory, { recursive: true, force: true });
  });
  const begin = (options?: ConstructorParameters<typeof KeptLife>[1]): KeptLife => {
    const life = new KeptLife(directory, options);
    lives.push(life);
    return life;
  };
  return { begin, lives };
}
