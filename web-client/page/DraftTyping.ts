import type { DraftPreview, PromptWarning } from '../sdk/messages.ts';
import { sentence, warningText } from './wording.ts';

/** Long enough that a word is finished, short enough that its world is ready when Enter follows. */
const PAUSE_MS = 150;

/** Tells the server what is being typed, once the fingers rest, and shows what it would become. */
export class DraftTyping {
  readonly #line: { textContent: string | null };
  readonly #send: (draft: string | null) => void;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #typed = '';

  constructor(line: { textContent: string | null }, send: (draft: string | null) => void) {
    this.#line = line;
    this.#send = send;
  }

  typed(text: string): void {
    const draft = text.trim();
    if (draft === this.#typed) return;
    this.#typed = draft;
    this.#stop();
    if (draft === '') {
      this.#line.textContent = '';
      this.#send(null);
    } else this.#timer = setTimeout(() => this.#send(draft), PAUSE_MS);
  }

  /** It was sent, or the session is over: what was said of it goes. */
  done(): void {
    this.#stop();
    this.#typed = '';
    this.#line.textContent = '';
  }

  show({ understood, plan, warnings }: DraftPreview): void {
    if (this.#typed === '') return;
    this.#line.textContent = !understood ? '' : [plan === null ? '' : `↵ ${sentence(plan.replace(/\s+([,.;])/g, '$1'))}`, ...warnings.map((warning: PromptWarning) => warningText(warning))].filter((part) => part !== '').join(' ');
  }

  #stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
