import type { Clock, Timer } from '../../observe/clock.ts';
import type { FromStorage, KeptChunk } from '../../streams/storage_messages.ts';
import type { ToStoragePort } from './StoryOutlet.ts';

export interface ChunkWish {
  readonly sessionId: string;
  readonly from: number;
  readonly count: number;
}

/** A read of some hundred kilobytes. */
const WATCHDOG_MS = 5_000;

/** Reads kept chunks from the storage thread, for sessions that play them. */
export class ChunkReader {
  readonly #send: ToStoragePort;
  readonly #clock: Clock;
  readonly #asked = new Map<number, { readonly told: (chunks: readonly KeptChunk[] | null) => void; readonly watchdog: Timer }>();
  #request = 0;

  constructor(send: ToStoragePort, clock: Clock) {
    this.#send = send;
    this.#clock = clock;
  }

  /** @param told null: the storage does not answer. Returns what takes the question back; harmless once it was answered. */
  read({ sessionId, from, count }: ChunkWish, told: (chunks: readonly KeptChunk[] | null) => void): () => void {
    const request = ++this.#request;
    const watchdog = this.#clock.schedule(this.#clock.now() + WATCHDOG_MS, () => this.#answer(request, null));
    this.#asked.set(request, { told, watchdog });
    this.#send({ type: 'chunks.of', request, sessionId, from, count }, []);
    return () => {
      watchdog.cancel();
      this.#asked.delete(request);
    };
  }

  receive(message: FromStorage): void {
    if (message.type === 'chunks.read') this.#answer(message.request, message.chunks);
  }

  #answer(request: number, chunks: readonly KeptChunk[] | null): void {
    const asked = this.#asked.get(request);
    this.#asked.delete(request);
    asked?.watchdog.cancel();
    asked?.told(chunks);
  }
}
