import { INPUT_SILENCE_MS, type ActionInput } from '../protocol/channel.ts';
import type { Clock, Timer } from '../observe/clock.ts';
import type { SessionWords } from '../streams/session_words.ts';

/**
 * What the driver holds down, written to the session's words where it arrives. The newest sequence wins; after 250 ms of silence the
 * wheel returns to neutral (a lost connection must not steer for ever), while speed and press counters stay.
 */
export class HeldInput {
  readonly #clock: Clock;
  readonly #words: SessionWords;
  readonly #changed: () => void;
  #source: string | null = null;
  #last: ActionInput | null = null;
  #silence: Timer | null = null;

  /** @param changed called after what is held has become another than before. */
  constructor(clock: Clock, words: SessionWords, changed: () => void = () => undefined) {
    this.#clock = clock;
    this.#words = words;
    this.#changed = changed;
  }

  /** @param source connection that it came by: a rejoined client counts from its own start again. Returns whether it was taken. */
  receive(source: string, action: ActionInput): boolean {
    const last = this.#source === source ? this.#last : null;
    if (last !== null && action.sequence < last.sequence) return false;
    this.#source = source;
    this.#last = action;
    this.#write(action, action.steer);
    this.#silence?.cancel();
    this.#silence = this.#clock.schedule(this.#clock.now() + INPUT_SILENCE_MS, () => this.#write(action, 0));
    return true;
  }

  close(): void {
    this.#silence?.cancel();
    this.#silence = null;
  }

  #write({ sequence, speed, leftPresses, rightPresses }: ActionInput, steer: number): void {
    const before = this.#words.action;
    this.#words.writeAction({ sequence, steer, speed, leftPresses, rightPresses });
    if (before.steer !== steer || before.speed !== speed || before.leftPresses !== leftPresses || before.rightPresses !== rightPresses) this.#changed();
  }
}
