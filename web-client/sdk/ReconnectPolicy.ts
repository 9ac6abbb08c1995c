/** When to try again after a lost connection: exponential, with jitter, until the session's grace period is over. Pure. */
export class ReconnectPolicy {
  readonly #graceMs: number;
  readonly #random: () => number;

  /** `graceMs`: how long the server keeps a session without a connection (60 s unless the session was created otherwise). */
  constructor(graceMs: number, random: () => number = Math.random) {
    this.#graceMs = graceMs;
    this.#random = random;
  }

  /** Ms to wait before attempt number `attempt` (from 0), or null to give up. `lostForMs`: since the connection was lost. */
  delayMs(attempt: number, lostForMs: number): number | null {
    const base = attempt === 0 ? 0 : Math.min(4_000, 250 * 2 ** (attempt - 1));
    // ±20 %, so that the clients of a server that restarted don't come back all in the same instant.
    const delay = base * (0.8 + 0.4 * this.#random());
    return lostForMs + delay < this.#graceMs ? delay : null;
  }
}
