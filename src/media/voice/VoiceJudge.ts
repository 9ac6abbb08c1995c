import { Worker } from 'node:worker_threads';
import { monotonicMs } from '../../observe/clock.ts';
import type { Logger } from '../../observe/log.ts';
import type { FromVoice, ToVoice, VoiceCodec } from './voice_messages.ts';

/** Packets of one voice that the voice thread has not judged yet: 200 ms of sound. Newer ones are dropped beyond that. */
export const MAX_UNJUDGED = 10;
/** While the model loads, and until what came meanwhile is judged: 3 s of sound, some tens of kilobytes. Nobody's first words are lost. */
export const MAX_UNHEARD = 150;
/** One that is lost so soon after it was started again is lost for good. */
const RESTARTED_MS = 60_000;
const END_TIMEOUT_MS = 1000;

export interface VoiceListener {
  /** Of the next frames of 32 ms, in order. */
  judged(probabilities: readonly number[]): void;
  /** No more judgements: the voice thread is gone. Called once, also for a voice that is opened later. */
  lost(): void;
}

export interface VoiceStream {
  /** False where the packet was dropped. */
  push(codec: VoiceCodec, data: Uint8Array): boolean;
  /** Idempotent; its listener hears nothing any more. */
  close(): void;
}

/** Whatever tells speech from everything else. */
export interface VoiceJudge {
  /** How often its thread was lost and started again. */
  readonly restarts: number;
  open(listener: VoiceListener): VoiceStream;
  /** Idempotent; resolves when nothing of it is left, or after a bound. */
  close(): Promise<void>;
}

interface Open {
  readonly listener: VoiceListener;
  unjudged: number;
  /** Packets have come while there was no model: the larger bound holds until they are judged. */
  behind: boolean;
}

/**
 * The voice thread as the media thread sees it: started with the first voice, for all sessions, and once more where it is lost. Without it voices are not heard, and
 * everything else goes on.
 */
export class VoiceThread implements VoiceJudge {
  readonly #log: Logger;
  readonly #streams = new Map<number, Open>();
  #worker: Worker | null = null;
  #ready = false;
  #restartedMs = -Infinity;
  restarts = 0;
  #ids = 0;
  #broken = false;
  #closing: Promise<void> | null = null;

  constructor(log: Logger) {
    this.#log = log;
  }

  open(listener: VoiceListener): VoiceStream {
    const id = ++this.#ids;
    const open: Open = { listener, unjudged: 0, behind: !this.#ready };
    this.#streams.set(id, open);
    if (this.#broken) queueMicrotask(() => this.#streams.has(id) && listener.lost());
    return {
      push: (codec, data) => {
        if (this.#broken || this.#closing !== null || !this.#streams.has(id) || open.unjudged >= (open.behind ? MAX_UNHEARD : MAX_UNJUDGED)) return false;
        open.unjudged += 1;
        this.#send({ type: 'packet', stream: id, codec, data });
        return true;
      },
      close: () => {
        if (this.#streams.delete(id) && this.#worker !== null && !this.#broken && this.#closing === null) this.#send({ type: 'forget', stream: id });
      },
    };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#streams.clear();
    const worker = this.#worker;
    if (worker === null || this.#broken) return;
    const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
    worker.postMessage({ type: 'end' } satisfies ToVoice);
    let watchdog: NodeJS.Timeout | undefined;
    const bound = new Promise<'late'>((resolve) => (watchdog = setTimeout(resolve, END_TIMEOUT_MS, 'late')));
    // A thread that computes must not be terminated: it is left to end with the process.
    if ((await Promise.race([ended, bound])) === 'late') this.#log.warn('the voice thread did not end in time');
    clearTimeout(watchdog);
  }

  #send(message: ToVoice): void {
    this.#worker ??= this.#start();
    this.#worker.postMessage(message);
  }

  #start(): Worker {
    const worker = new Worker(new URL('./voice_thread.ts', import.meta.url), { name: 'voice' });
    worker.unref();
    worker.on('message', (message: FromVoice) => worker === this.#worker && this.#received(message));
    worker.on('error', (error) => this.#lost(worker, error.message));
    worker.on('exit', (code) => this.#lost(worker, `it ended with code ${code}`));
    return worker;
  }

  #received(message: FromVoice): void {
    if (message.type === 'failed') return this.#lost(this.#worker, message.message);
    if (message.type === 'ready') {
      this.#ready = true;
      for (const open of this.#streams.values()) open.behind &&= open.unjudged > MAX_UNJUDGED;
      return;
    }
    const open = this.#streams.get(message.stream);
    if (open === undefined) return;
    open.unjudged -= 1;
    if (this.#ready && open.unjudged <= MAX_UNJUDGED) open.behind = false;
    open.listener.judged(message.probabilities);
  }

  #lost(worker: Worker | null, reason: string): void {
    if (worker !== this.#worker || this.#broken || this.#closing !== null) return;
    const now = monotonicMs();
    if (now - this.#restartedMs > RESTARTED_MS) return this.#startAgain(now, reason);
    this.#broken = true;
    this.#log.error({ reason }, 'voices are not heard any more');
    for (const { listener } of [...this.#streams.values()]) listener.lost();
  }

  /** What it had not judged is lost with it; voices go on with their next packets. */
  #startAgain(now: number, reason: string): void {
    this.#restartedMs = now;
    this.restarts += 1;
    this.#log.warn({ reason }, 'the voice thread was lost and is started again');
    this.#ready = false;
    for (const open of this.#streams.values()) {
      open.unjudged = 0;
      open.behind = true;
    }
    this.#worker = this.#start();
  }
}
