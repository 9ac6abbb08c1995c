/**
 * Constant-bandwidth server: the reserve out of which one session's redirects are served ahead of their turn.
 * A budget of `budgetMs` device time refills at `bandwidth` ms per ms. Work within the budget is due `boostMs` after it arrived; work
 * beyond it is due when the budget will have paid for it. So a redirect is quick, and a thousand of them delay nobody else:
 * the session's own work is what gets postponed. (After Abeni and Buttazzo, "Integrating multimedia applications in hard real-time systems", RTSS 1998.)
 */
export class BandwidthServer {
  readonly budgetMs: number;
  readonly boostMs: number;
  readonly #bandwidth: () => number;
  #availableMs: number;
  #refilledAtMs: number;

  /** @param bandwidth share of a device, 0 … 1, exclusive of 0; read at each use, so that what nobody was promised can be shared out. */
  constructor({ budgetMs, bandwidth, boostMs, nowMs }: { readonly budgetMs: number; readonly bandwidth: () => number; readonly boostMs: number; readonly nowMs: number }) {
    if (!(bandwidth() > 0 && bandwidth() <= 1)) throw new TypeError(`bandwidth must be in (0, 1], got ${bandwidth()}`);
    if (!(budgetMs > 0) || !(boostMs >= 0)) throw new TypeError(`budgetMs must be positive and boostMs not negative, got ${budgetMs} and ${boostMs}`);
    this.budgetMs = budgetMs;
    this.#bandwidth = bandwidth;
    this.boostMs = boostMs;
    this.#availableMs = budgetMs;
    this.#refilledAtMs = nowMs;
  }

  /** Deadline of boosted work that arrived at `arrivedMs` and costs `costMs`. */
  deadline(nowMs: number, arrivedMs: number, costMs: number): number {
    this.#refill(nowMs);
    const shortMs = costMs - this.#availableMs;
    return shortMs <= 0 ? arrivedMs + this.boostMs : nowMs + this.boostMs + shortMs / this.#bandwidth();
  }

  /** Charges what boosted work took; the budget may go into debt, which later deadlines pay for. */
  charge(nowMs: number, deviceMs: number): void {
    this.#refill(nowMs);
    this.#availableMs -= deviceMs;
  }

  available(nowMs: number): number {
    this.#refill(nowMs);
    return this.#availableMs;
  }

  #refill(nowMs: number): void {
    if (nowMs <= this.#refilledAtMs) return;
    this.#availableMs = Math.min(this.budgetMs, this.#availableMs + (nowMs - this.#refilledAtMs) * this.#bandwidth());
    this.#refilledAtMs = nowMs;
  }
}
