import { create } from './dom.ts';
import { ASPECTS, NOTHING_SELECTED, promptFrom, selectionFrom, suggestionsFrom, type Aspect, type Selection } from './vocabulary.ts';

/** Words of a vocabulary that fits none of the page's phrases are shown as they are, up to this many. */
const MAX_PLAIN_WORDS = 12;

/** One chip per place, time and weather. A press changes one aspect and asks for the whole. */
export class Suggestions {
  readonly #root: HTMLElement;
  readonly #ask: (prompt: string) => void;
  readonly #chips = new Map<HTMLButtonElement, { readonly aspect: Aspect; readonly phrase: string }>();
  #selection: Selection = NOTHING_SELECTED;

  constructor(root: HTMLElement, ask: (prompt: string) => void) {
    this.#root = root;
    this.#ask = ask;
  }

  show(vocabulary: readonly string[]): void {
    this.#chips.clear();
    const suggestions = suggestionsFrom(vocabulary);
    const groups = suggestions === null ? [this.#plain(vocabulary)] : ASPECTS.filter((aspect) => suggestions[aspect].length > 0).map((aspect) => suggestions[aspect].map((phrase) => this.#chip(aspect, phrase)));
    this.#root.replaceChildren(...groups.flatMap((chips, index) => (index === 0 ? chips : [create('i', { ariaHidden: 'true' }), ...chips])));
    this.#mark();
  }

  /** The world is now (about to be) what this text says: a sent prompt, or the model's plan. */
  follow(text: string): void {
    this.#selection = selectionFrom(text, this.#selection);
    this.#mark();
  }

  #plain(vocabulary: readonly string[]): HTMLButtonElement[] {
    return vocabulary.slice(0, MAX_PLAIN_WORDS).map((word) => {
      const chip = create('button', { type: 'button', className: 'chip', textContent: word });
      chip.addEventListener('click', () => this.#ask(word));
      return chip;
    });
  }

  #chip(aspect: Aspect, phrase: string): HTMLButtonElement {
    const chip = create('button', { type: 'button', className: 'chip', textContent: phrase, ariaPressed: 'false' });
    chip.dataset['testid'] = `chip-${phrase.replaceAll(' ', '-')}`;
    chip.addEventListener('click', () => {
      this.#selection = selectionFrom(phrase, this.#selection);
      this.#mark();
      this.#ask(promptFrom(this.#selection));
    });
    this.#chips.set(chip, { aspect, phrase });
    return chip;
  }

  #mark(): void {
    for (const [chip, { aspect, phrase }] of this.#chips) {
      const name = selectionFrom(phrase, NOTHING_SELECTED)[aspect];
      chip.ariaPressed = String(name !== null && this.#selection[aspect] === name);
    }
  }
}
