import type { TextDelta } from '../sdk/index.ts';

/** The model's words: its plan in small letters, its narration as captions. */
export class Captions {
  readonly #lines: Readonly<Record<TextDelta['stream'], HTMLElement>>;
  readonly #complete: Record<TextDelta['stream'], boolean> = { plan: true, narration: true };
  readonly #spoken: Record<TextDelta['stream'], string> = { plan: '', narration: '' };

  readonly #told: HTMLElement;

  /** `told`: a live region, which gets whole sentences only; word by word a screen reader would stammer. */
  constructor(plan: HTMLElement, narration: HTMLElement, told: HTMLElement) {
    this.#lines = { plan, narration };
    this.#told = told;
  }

  /** Returns the whole text once it is complete. */
  show({ type, stream, text }: TextDelta): string | null {
    // A delta after a complete text begins the next one; a complete text is whole, whatever was shown before.
    const whole = type === 'text.complete' ? text : (this.#complete[stream] ? '' : this.#spoken[stream]) + text;
    this.#spoken[stream] = whole;
    this.#complete[stream] = type === 'text.complete';
    this.#lines[stream].textContent = sentence(whole);
    if (type !== 'text.complete') return null;
    if (stream === 'narration') this.#told.textContent = sentence(whole);
    return whole;
  }

  clear(): void {
    for (const stream of ['plan', 'narration'] as const) {
      this.#lines[stream].textContent = '';
      this.#spoken[stream] = '';
      this.#complete[stream] = true;
    }
  }
}

/** The model writes lower-case words with spaces before its commas. */
function sentence(text: string): string {
  const tidy = text.trim().replace(/\s+([,.;])/g, '$1');
  return tidy.charAt(0).toUpperCase() + tidy.slice(1);
}
