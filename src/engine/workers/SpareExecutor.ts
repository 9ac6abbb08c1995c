import type { Clock } from '../../observe/clock.ts';
import type { Logger } from '../../observe/log.ts';
import type { ToExecutor } from './executor_messages.ts';
import type { ExecutorThread, LoadMessage } from './ExecutorThread.ts';

export interface SpareExecutorOptions {
  readonly clock: Clock;
  readonly logger: Logger | undefined;
  readonly load: LoadMessage;
  /** A thread that measures nothing at load. */
  readonly open: () => ExecutorThread;
  /** It can take over from now on. */
  readonly ready: () => void;
  /** There won't be one any more. */
  readonly gone: () => void;
}

/**
 * The thread that waits beside the one that works: model compiled and warm, no session, no block. A thread that hung becomes the spare
 * of the one that took over as soon as it answers again.
 */
export class SpareExecutor {
  readonly #options: SpareExecutorOptions;
  #thread: ExecutorThread | null = null;
  #state: 'none' | 'loading' | 'recovering' | 'ready' = 'none';

  constructor(options: SpareExecutorOptions) {
    this.#options = options;
  }

  get ready(): boolean {
    return this.#state === 'ready';
  }

  /** There is one, or there will be. */
  get expected(): boolean {
    return this.#state !== 'none';
  }

  /** A fresh thread. */
  start(): void {
    const { clock, logger, load, open } = this.#options;
    const thread = open();
    const startedAtMs = clock.now();
    this.#become('loading', thread);
    thread.load(load).then(
      (answer) => {
        if (this.#thread !== thread) return;
        if (answer.type === 'load.failed') {
          logger?.error({ executor: thread.name, problem: answer.message }, 'spare executor not loaded; nothing takes over from here on');
          void thread.stop();
          this.#lose();
          return;
        }
        logger?.info({ executor: thread.name, ms: Math.round(clock.now() - startedAtMs) }, 'spare executor ready');
        this.#becomeReady(thread);
      },
      // It ended while it loaded: `died` has been told.
      () => undefined,
    );
  }

  /** The thread that hung: whatever it still does is cancelled and changes nothing; then it forgets everything and waits. */
  recover(thread: ExecutorThread): void {
    const { logger } = this.#options;
    this.#become('recovering', thread);
    thread.ask((request) => ({ type: 'reset', request }), null).then(
      () => {
        if (this.#thread !== thread) return;
        logger?.info({ executor: thread.name }, 'executor answers again; it is the spare now');
        this.#becomeReady(thread);
      },
      () => undefined,
    );
  }

  /** Hands out the thread where it is ready. */
  take(): ExecutorThread | null {
    if (this.#state !== 'ready') return null;
    const thread = this.#thread;
    this.#become('none', null);
    return thread;
  }

  /** Passes on what changes the memory of all threads alike. */
  ask(question: (request: number) => ToExecutor): void {
    this.#thread?.ask(question, null).catch((error: unknown) => this.#options.logger?.warn({ err: error }, 'the spare executor did not follow'));
  }

  /** Its thread ended. Replaced, unless it never came up: then another would not either. */
  died(thread: ExecutorThread): void {
    if (this.#thread !== thread) return;
    const everReady = this.#state !== 'loading';
    if (everReady) this.start();
    else this.#lose();
  }

  /** Idempotent. */
  async stop(): Promise<void> {
    const thread = this.#thread;
    this.#become('none', null);
    await thread?.stop();
  }

  #becomeReady(thread: ExecutorThread): void {
    this.#become('ready', thread);
    this.#options.ready();
  }

  #lose(): void {
    this.#become('none', null);
    this.#options.gone();
  }

  #become(state: 'none' | 'loading' | 'recovering' | 'ready', thread: ExecutorThread | null): void {
    this.#state = state;
    this.#thread = thread;
  }
}
