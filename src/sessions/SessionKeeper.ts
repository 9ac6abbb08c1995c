import type { Clock, Timer } from '../observe/clock.ts';
import type { DurablePosition, KeptRequest, KeptSession, StorageWrite } from '../streams/storage_messages.ts';
import type { Turn } from './PromptMemory.ts';
import type { SessionEvent } from './SessionEventLog.ts';

/** A turn changes with every word that the model says: written once in a while. */
const TURN_INTERVAL_MS = 100;
/** A storage that is this late with a write doesn't hold up an answer any longer; that it is late is told elsewhere. */
const HOLD_MS = 1_000;

export interface SessionKeeperOptions {
  readonly sessionId: string;
  readonly archive: { write(write: StorageWrite): number | null; canTake(sessionId: string): boolean; readonly stored: number };
  readonly clock: Clock;
  readonly onDurable: (position: DurablePosition) => void;
}

/** What one session writes down of itself. */
export class SessionKeeper {
  readonly #options: SessionKeeperOptions;
  readonly #turns = new Map<number, Turn>();
  readonly #waiting: { readonly number: number; readonly run: () => void; readonly watchdog: Timer }[] = [];
  readonly #durable = Promise.withResolvers<void>();
  #lastTurn = -1;
  #turnTimer: Timer | null = null;
  #closed = false;

  constructor(options: SessionKeeperOptions) {
    this.#options = options;
  }

  /** Room for what must not be lost. False: the storage is so far behind that nothing should be promised. */
  get canTake(): boolean {
    return this.#options.archive.canTake(this.#options.sessionId);
  }

  created(session: KeptSession): void {
    this.#write({ type: 'session', session });
  }

  /** @param stored called when it is on disk; see {@link whenStored}. */
  event({ sequence, type, at, data }: SessionEvent, stored: () => void): void {
    this.whenStored(this.#write({ type: 'event', sessionId: this.#options.sessionId, event: { sequence, type, at, data: JSON.stringify(data) } }), stored);
  }

  /** Null where it is not kept. */
  request(request: KeptRequest): number | null {
    return this.#write({ type: 'request', sessionId: this.#options.sessionId, request });
  }

  turn(ordinal: number, turn: Turn): void {
    if (this.#closed) return;
    if (ordinal > this.#lastTurn) {
      this.#lastTurn = ordinal;
      // What was asked for is written at once; what the model says of it comes after and after.
      this.#write({ type: 'turn', sessionId: this.#options.sessionId, turn: { ordinal, turn: JSON.stringify(turn) } });
      return;
    }
    this.#turns.set(ordinal, { ...turn });
    const { clock } = this.#options;
    this.#turnTimer ??= clock.schedule(clock.now() + TURN_INTERVAL_MS, () => this.#writeTurns());
  }

  /** Several turns at once; null: gone. */
  turns(changes: readonly { readonly ordinal: number; readonly turn: Turn | null }[]): void {
    if (this.#closed) return;
    for (const { ordinal } of changes) this.#turns.delete(ordinal);
    this.#lastTurn = changes.reduce((last, { ordinal }) => Math.max(last, ordinal), this.#lastTurn);
    this.#write({ type: 'turns', sessionId: this.#options.sessionId, turns: changes.map(({ ordinal, turn }) => ({ ordinal, turn: turn === null ? null : JSON.stringify(turn) })) });
  }

  ended(reason: string): void {
    this.#writeTurns();
    this.#write({ type: 'ended', sessionId: this.#options.sessionId, reason });
  }

  /** Runs when the write of that number is on disk: at once where it is, and after {@link HOLD_MS} in any case. */
  whenStored(number: number | null, run: () => void): void {
    const { archive, clock } = this.#options;
    if (number === null || number <= archive.stored || this.#closed) return run();
    const waiting = {
      number,
      run,
      watchdog: clock.schedule(clock.now() + HOLD_MS, () => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
        run();
      }),
    };
    this.#waiting.push(waiting);
  }

  onStored(through: number): void {
    while (this.#waiting[0] !== undefined && this.#waiting[0].number <= through) this.#next();
  }

  /** Resolves at the first thing of the story that is on disk, and after {@link HOLD_MS} in any case. */
  whenDurable(): Promise<void> {
    const { clock } = this.#options;
    const watchdog = clock.schedule(clock.now() + HOLD_MS, () => this.#durable.resolve());
    return this.#durable.promise.finally(() => watchdog.cancel());
  }

  onDurable(position: DurablePosition): void {
    this.#durable.resolve();
    this.#options.onDurable(position);
  }

  /** Writes what is left; whoever waits doesn't any more. Idempotent. */
  close(): void {
    if (this.#closed) return;
    this.#writeTurns();
    this.#durable.resolve();
    this.#closed = true;
    while (this.#waiting.length > 0) this.#next();
  }

  #next(): void {
    const { watchdog, run } = this.#waiting.shift()!;
    watchdog.cancel();
    run();
  }

  #writeTurns(): void {
    this.#turnTimer?.cancel();
    this.#turnTimer = null;
    for (const [ordinal, turn] of this.#turns) this.#write({ type: 'turn', sessionId: this.#options.sessionId, turn: { ordinal, turn: JSON.stringify(turn) } });
    this.#turns.clear();
  }

  #write(write: StorageWrite): number | null {
    return this.#closed ? null : this.#options.archive.write(write);
  }
}
