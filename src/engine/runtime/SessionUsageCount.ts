/** Device time of one session, drafts included: counted where results come back, told where it has changed. */
export class SessionUsageCount {
  #deviceMs = 0;
  #told = { deviceMs: 0, lateFrames: 0 };

  /** Its share of a batch that was run, committed or not. */
  spent(deviceMs: number): void {
    this.#deviceMs += deviceMs;
  }

  get deviceMs(): number {
    return this.#deviceMs;
  }

  /** What is to be told; null where that is what was told last. */
  take(lateFrames: number): { readonly deviceMs: number; readonly lateFrames: number } | null {
    const told = this.#told;
    if (told.deviceMs === this.#deviceMs && told.lateFrames === lateFrames) return null;
    this.#told = { deviceMs: this.#deviceMs, lateFrames };
    return this.#told;
  }
}
