import type { ClientError } from './ClientError.ts';

/** More than a machine with several interfaces gathers; further candidates of a runaway are dropped. */
const MAX_QUEUED = 64;

/** Sends gathered candidates in order, one call at a time; those that come before the connection has an id wait for it. */
export class CandidateQueue<Candidate> {
  readonly #send: (connectionId: string, candidate: Candidate | null) => Promise<void>;
  readonly #failed: (error: ClientError) => void;
  #queue: (Candidate | null)[] = [];
  #connectionId: string | null = null;
  #sending = false;
  #closed = false;

  constructor(send: (connectionId: string, candidate: Candidate | null) => Promise<void>, failed: (error: ClientError) => void) {
    this.#send = send;
    this.#failed = failed;
  }

  /** `null` ends the candidates. */
  add(candidate: Candidate | null): void {
    if (this.#closed || this.#queue.length >= MAX_QUEUED) return;
    this.#queue.push(candidate);
    void this.#drain();
  }

  start(connectionId: string): void {
    this.#connectionId = connectionId;
    void this.#drain();
  }

  close(): void {
    this.#closed = true;
    this.#queue = [];
  }

  async #drain(): Promise<void> {
    if (this.#sending || this.#connectionId === null) return;
    this.#sending = true;
    while (this.#queue.length > 0) {
      const candidate = this.#queue.shift() as Candidate | null;
      try {
        await this.#send(this.#connectionId, candidate);
      } catch (error) {
        // One candidate less need not matter: the connection tells whether it does.
        if (!this.#closed) this.#failed(error as ClientError);
      }
    }
    this.#sending = false;
  }
}
