import { Worker as Thread } from 'node:worker_threads';
import type { Clock } from '../../observe/clock.ts';
import type { Logger } from '../../observe/log.ts';
import type { WorkUnitBatch } from '../model/work.ts';
import { CancelWords, NUM_CANCEL_WORDS } from './CancelWords.ts';
import type { ExecutorOptions, ExecutorStart, FromExecutor, HeldBlocks, ToExecutor } from './executor_messages.ts';

export type LoadMessage = Extract<ToExecutor, { type: 'load' }>;
export type LoadAnswer = Extract<FromExecutor, { type: 'loaded' | 'load.failed' }>;
export type ResultsMessage = Extract<FromExecutor, { type: 'results' }>;
/** Called with the request's number. */
type Question = (request: number) => ToExecutor;
type Blocks = readonly (Float32Array | null)[];

export interface ExecutorThreadOptions {
  readonly name: string;
  readonly clock: Clock;
  readonly logger: Logger | undefined;
  readonly executor: ExecutorOptions;
  readonly results: (thread: ExecutorThread, message: ResultsMessage) => void;
  /** It ended without being told to; once. Whatever it was asked has been rejected. */
  readonly died: (thread: ExecutorThread, reason: Error) => void;
}

/**
 * The engine's end of one executor thread: messages and their answers, and the shared words by which a thread that computes is reached.
 * What its silence means, whoever owns it decides.
 */
export class ExecutorThread {
  readonly name: string;
  readonly #options: ExecutorThreadOptions;
  readonly #thread: Thread;
  readonly #cancel = new CancelWords();
  readonly #freeWords = Array.from({ length: NUM_CANCEL_WORDS }, (_, word) => word);
  /** Batches without an answer → cancel word. One that was given up keeps its word: nobody may reuse it before the thread is done with it. */
  readonly #words = new Map<number, number>();
  readonly #questions = new Map<number, { readonly resolve: (blocks: Blocks) => void; readonly reject: (error: Error) => void }>();
  #onLoaded: { readonly resolve: (answer: LoadAnswer) => void; readonly reject: (error: Error) => void } | null = null;
  #nextQuestion = 1;
  #state: 'running' | 'stopping' | 'ended' = 'running';
  #lastSeenMs: number;
  #held: HeldBlocks = { count: 0, bytes: 0 };

  constructor(options: ExecutorThreadOptions) {
    this.name = options.name;
    this.#options = options;
    this.#lastSeenMs = options.clock.now();
    const start: ExecutorStart = { cancelWords: this.#cancel.buffer, options: options.executor };
    this.#thread = new Thread(new URL('./executor_thread.ts', import.meta.url), { workerData: start, name: `executor ${this.name}` });
    this.#thread.on('message', (message: FromExecutor) => this.#receive(message));
    this.#thread.on('error', (error: unknown) => this.#ended(error instanceof Error ? error : new Error(String(error))));
    this.#thread.on('exit', (code) => this.#ended(new Error(`executor thread ended with code ${code}`)));
  }

  get alive(): boolean {
    return this.#state === 'running';
  }

  /** Has answered for everything that it was given. */
  get idle(): boolean {
    return this.#words.size === 0;
  }

  /** Monotonic ms of the last sign of life. */
  get lastSeenMs(): number {
    return this.#lastSeenMs;
  }

  /** What it held when it was last heard of. */
  get held(): HeldBlocks {
    return this.#held;
  }

  /** @throws {Error} the thread ended instead of answering. */
  load(message: LoadMessage): Promise<LoadAnswer> {
    return new Promise((resolve, reject) => {
      this.#onLoaded = { resolve, reject };
      this.post(message);
    });
  }

  /** To nobody where the thread has ended. */
  post(message: ToExecutor): void {
    if (this.#state === 'running') this.#thread.postMessage(message);
  }

  /** False where too many of its batches were given up and are still without an answer. */
  execute(batch: WorkUnitBatch): boolean {
    const cancelWord = this.#freeWords.pop();
    if (cancelWord === undefined) return false;
    this.#cancel.reset(cancelWord);
    this.#words.set(batch.batchId, cancelWord);
    this.post({ type: 'execute', batch, cancelWord });
    return true;
  }

  /** Cancels units of a batch by their index. False where it has begun to publish: results will come. A thread that ended publishes nothing. */
  cancel(batchId: number, unitIndices: readonly number[]): boolean {
    const word = this.#words.get(batchId);
    return word === undefined || this.#cancel.cancel(word, unitIndices) || this.#state === 'ended';
  }

  /** @param patienceMs null: as long as it takes. @throws {Error} no answer, or the answer is a failure. */
  ask(question: Question, patienceMs: number | null): Promise<Blocks> {
    if (this.#state !== 'running') return Promise.reject(new Error(`executor ${this.name} has ended`));
    const { clock } = this.#options;
    const request = this.#nextQuestion++;
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        this.#questions.delete(request);
        reject(new Error(`executor ${this.name} did not answer within ${patienceMs} ms`));
      };
      const watchdog = patienceMs === null ? null : clock.schedule(clock.now() + patienceMs, giveUp);
      const settled = <T>(settle: (value: T) => void) => (value: T) => {
        watchdog?.cancel();
        this.#questions.delete(request);
        settle(value);
      };
      this.#questions.set(request, { resolve: settled(resolve), reject: settled(reject) });
      this.post(question(request));
    });
  }

  /** Lets what runs end, then the thread. Idempotent. */
  async stop(): Promise<void> {
    if (this.#state !== 'running') return;
    const { clock, logger } = this.#options;
    await new Promise<void>((resolve) => {
      // A thread in the middle of a run can't be terminated without aborting the process: after this long it is left to end by itself.
      const patience = clock.schedule(clock.now() + STOP_PATIENCE_MS, () => {
        logger?.error({ executor: this.name }, 'executor thread does not stop; left behind');
        this.#thread.unref();
        resolve();
      });
      this.#thread.once('exit', () => {
        patience.cancel();
        resolve();
      });
      this.post({ type: 'stop' });
      this.#state = 'stopping';
    });
    this.#reject(new Error(`executor ${this.name} is stopped`));
  }

  #receive(message: FromExecutor): void {
    this.#lastSeenMs = this.#options.clock.now();
    if ('held' in message) this.#held = message.held;
    switch (message.type) {
      case 'loaded':
      case 'load.failed':
        this.#onLoaded?.resolve(message);
        this.#onLoaded = null;
        return;
      case 'results':
        this.#freeWords.push(this.#words.get(message.batchId)!);
        this.#words.delete(message.batchId);
        this.#options.results(this, message);
        return;
      case 'answer':
        this.#questions.get(message.request)?.resolve(message.blocks);
        return;
      case 'answer.failed':
        this.#questions.get(message.request)?.reject(new Error(message.message));
        return;
      case 'stopped':
        return;
    }
  }

  #ended(reason: Error): void {
    const was = this.#state;
    this.#state = 'ended';
    this.#reject(reason);
    if (was !== 'running') return;
    this.#options.logger?.error({ executor: this.name, err: reason }, 'executor thread died');
    this.#options.died(this, reason);
  }

  #reject(reason: Error): void {
    this.#onLoaded?.reject(reason);
    this.#onLoaded = null;
    for (const { reject } of [...this.#questions.values()]) reject(reason);
  }
}

const STOP_PATIENCE_MS = 5000;
