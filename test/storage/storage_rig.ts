import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { VirtualClock } from '../../src/observe/virtual_clock.ts';
import { createLogger } from '../../src/observe/log.ts';
import { SessionStorage, type SessionStorageOptions, type Writer } from '../../src/storage/SessionStorage.ts';
import type { FromStorage, KeptChunk, KeptSession, KeptWorld, StorageWrite } from '../../src/streams/storage_messages.ts';

export const FINGERPRINT = { modelId: 'drive', weightsVersion: 'w1', adapterVersions: {}, machine: 'test' };
const LIMITS = { maxAgeMs: 86_400_000, sessionBytes: 256 * 1024 * 1024 };

export function temporaryDirectory(): string {
  return mkdtempSync(join(tmpdir(), 'segue-storage-'));
}

export function session(sessionId: string, change: Partial<KeptSession> = {}): StorageWrite {
  return { type: 'session', session: { sessionId, createdAt: '2026-01-01T00:00:00.000Z', program: 'drive', seed: 7, prompt: 'a forest', image: null, fingerprint: FINGERPRINT, options: '{}', ...change } };
}

export function chunk(sessionId: string, index: number, values = 32 * 128): StorageWrite {
  return { type: 'chunk', sessionId, branch: 0, chunk: keptChunk(index, values) };
}

export function keptChunk(index: number, values = 32 * 128): KeptChunk {
  return { chunk: index, start90k: index * 15_000, end90k: (index + 1) * 15_000, epoch: 0, conditioningVersion: 0, data: `{"index":${index}}`, tensors: [{ name: 'x', dims: [values], data: latents(index, values).buffer }] };
}

export function latents(index: number, values = 32 * 128): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: values }, (_, at) => Math.fround(Math.sin(index * 1000 + at)));
}

/** The storage on a virtual clock, in a directory of its own, with what it says. */
export class StorageRig {
  readonly directory: string;
  readonly clock = new VirtualClock();
  readonly told: { readonly writer: Writer; readonly message: FromStorage }[] = [];
  readonly storage: SessionStorage;
  readonly #numbers = { control: 0, engine: 0 };
  #request = 0;

  constructor({ directory = temporaryDirectory(), retention = LIMITS }: Partial<Pick<SessionStorageOptions, 'directory' | 'retention'>> = {}) {
    this.directory = directory;
    this.storage = new SessionStorage({ directory, retention, clock: this.clock, log: createLogger({ level: 'silent' }), tell: (writer, message) => this.told.push({ writer, message }) });
  }

  write(writer: Writer, ...writes: readonly StorageWrite[]): void {
    for (const write of writes) this.storage.receive(writer, { type: 'write', number: ++this.#numbers[writer], write });
  }

  world(sessionId: string, windowChunks = 7): KeptWorld | null {
    const request = ++this.#request;
    this.storage.receive('control', { type: 'load', request, sessionId, windowChunks });
    const answer = this.messages('loaded').find((message) => message.request === request);
    if (answer === undefined || answer.error !== undefined) throw new Error(JSON.stringify(answer));
    return answer.world;
  }

  messages<Type extends FromStorage['type']>(type: Type): Extract<FromStorage, { type: Type }>[] {
    return this.told.flatMap(({ message }) => (message.type === type ? [message as Extract<FromStorage, { type: Type }>] : []));
  }

  after(ms: number): Promise<void> {
    return this.clock.advanceTo(this.clock.now() + ms);
  }

  /** Closes, and forgets the directory. */
  end(): void {
    this.storage.close();
    rmSync(this.directory, { recursive: true, force: true });
  }
}
