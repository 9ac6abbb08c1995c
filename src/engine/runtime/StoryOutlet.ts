import { OutstandingWrites, type OutstandingBounds } from '../../streams/outstanding_writes.ts';
import { writeBytes, writtenFor, type FromStorage, type KeptTensor, type StorageWrite, type ToStorage } from '../../streams/storage_messages.ts';

/** The way to the storage thread; buffers named in `transfer` are handed over. */
export type ToStoragePort = (message: ToStorage, transfer: readonly ArrayBuffer[]) => void;

/** The engine's end of the way to the storage thread: all sessions' writes, numbered and bounded. */
export class StoryOutlet {
  readonly #send: ToStoragePort;
  readonly #writes: OutstandingWrites;
  /** Milliseconds that the engine thread has spent on keeping, and for how many chunks. */
  readonly spent = { ms: 0, chunks: 0, longestMs: 0 };

  constructor(send: ToStoragePort, bounds?: OutstandingBounds) {
    this.#send = send;
    this.#writes = new OutstandingWrites(bounds);
  }

  /** False where it doesn't fit: nothing was sent. */
  offer(write: StorageWrite, tensors: readonly KeptTensor[]): boolean {
    const number = this.#writes.take(writtenFor(write), writeBytes(write));
    if (number === null) return false;
    this.#send({ type: 'write', number, write }, tensors.flatMap(({ data }) => (data instanceof ArrayBuffer ? [data] : [])));
    return true;
  }

  /** Whether a session that was refused may begin again. */
  hasEased(sessionId: string): boolean {
    return this.#writes.hasEased(sessionId);
  }

  receive(message: FromStorage): void {
    if (message.type === 'stored') this.#writes.settle(message.through);
  }
}
