import type { TextDelta } from '../sdk/messages.ts';

/** An element to write in. */
type Line = { textContent: string | null };

interface Spoken {
  readonly request: string | null;
  readonly text: string;
  readonly complete: boolean;
}

const SILENCE: Spoken = { request: null, text: '', complete: true };

/** The model's words: its plan in small letters, its narration as captions. */
export class Captions {
  readonly #lines: Readonly<Record<TextDelta['stream'], Line>>;
  readonly #spoken: Record<TextDelta['stream'], Spoken> = { plan: SILENCE, narration: SILENCE };

  readonly #told: Line;

  /** `told`: a live region, which gets whole sentences only; word by word a screen reader would stammer. */
  constructor(plan: Line, narration: Line, told: Line) {
    this.#lines = { plan, narration };
    this.#told = told;
  }

  /** Returns the whole text once it is complete. */
  show({ type, stream, text, re, soFar }: TextDelta): string | null {
    const before = this.#spoken[stream];
    const request = re ?? null;
    // A delta goes on with what the same request has said, unless it holds all that was said so far, for whoever comes in between. A complete text is whole,
    // whatever was shown before; an empty one ends what was said.
    const goesOn = soFar !== true && (type === 'text.delta' || text === '') && !before.complete && before.request === request;
    const whole = goesOn ? before.text + text : text;
    this.#spoken[stream] = { request, text: whole, complete: type === 'text.complete' };
    // The story of the world before makes no caption for the new one.
    if (stream === 'plan' && this.#spoken.narration.request !== request) this.#silence('narration');
    this.#lines[stream].textContent = sentence(whole);
    if (type !== 'text.complete') return null;
    if (stream === 'narration') this.#told.textContent = sentence(whole);
    return whole;
  }

  clear(): void {
    this.#silence('plan');
    this.#silence('narration');
  }

  #silence(stream: TextDelta['stream']): void {
    this.#lines[stream].textContent = '';
    this.#spoken[stream] = SILENCE;
  }
}

/** The model writes lower-case words with spaces before its commas. */
function sentence(text: string): string {
  const tidy = text.trim().replace(/\s+([,.;])/g, '$1');
  return tidy.charAt(0).toUpperCase() + tidy.slice(1);
}
