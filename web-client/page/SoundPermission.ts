import type { Toasts } from './Toasts.ts';

/** A context that was allowed to start needs a moment for it. */
const PATIENCE_MS = 1_200;

/**
 * Browsers let sound begin in a press only, and some stop it again (a call on a phone, another program that takes the loudspeaker). While a session's sound is not
 * let out, this says so, and any press lets it out.
 */
export class SoundPermission {
  readonly #toasts: Toasts;
  #context: AudioContext | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #dismiss: (() => void) | null = null;

  constructor(toasts: Toasts) {
    this.#toasts = toasts;
    for (const press of ['pointerdown', 'keydown'] as const) window.addEventListener(press, () => this.#resume(), { capture: true });
  }

  /** From now on the context's sound is wanted; null: no longer. */
  want(context: AudioContext | null): void {
    if (context === this.#context) return;
    this.#context?.removeEventListener('statechange', this.#changed);
    this.#context = context;
    context?.addEventListener('statechange', this.#changed);
    this.#changed();
  }

  readonly #changed = (): void => {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#context === null || this.#context.state === 'running') {
      this.#dismiss?.();
      this.#dismiss = null;
    } else if (this.#dismiss === null) this.#timer = setTimeout(() => this.#ask(), PATIENCE_MS);
  };

  #ask(): void {
    this.#timer = null;
    this.#dismiss = this.#toasts.show('There is no sound yet', { detail: 'The browser lets it begin with a press.', shownMs: Infinity, action: { label: 'Turn on sound', run: () => this.#resume() } });
  }

  #resume(): void {
    // Rejects where the browser takes no press for enough: the next one may be.
    if (this.#context !== null && this.#context.state !== 'running') this.#context.resume().catch(() => undefined);
  }
}
