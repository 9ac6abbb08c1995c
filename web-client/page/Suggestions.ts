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
  #revealed: Aspect = 'place';

  constructor(root: HTMLElement, ask: (prompt: string) => void) {
    this.#root = root;
    this.#ask = ask;
    // A phone that is turned, or measurements that take its place, leave the row another width.
    new ResizeObserver(() => this.#reveal(this.#revealed, 'instant')).observe(root);
  }

  show(vocabulary: readonly string[]): void {
    this.#chips.clear();
    const suggestions = suggestionsFrom(vocabulary);
    const groups =
      suggestions === null
        ? [chipGroup('Words', this.#plain(vocabulary))]
        : ASPECTS.filter((aspect) => suggestions[aspect].length > 0).map((aspect) => chipGroup(NAMES[aspect], suggestions[aspect].map((phrase) => this.#chip(aspect, phrase))));
    this.#root.replaceChildren(...groups);
    this.#mark();
    this.#reveal(this.#revealed, 'instant');
  }

  /** The world is now (about to be) what this text says: a sent prompt, or the model's plan. */
  follow(text: string): void {
    const before = this.#selection;
    this.#selection = selectionFrom(text, before);
    this.#mark();
    const changed = ASPECTS.find((aspect) => this.#selection[aspect] !== before[aspect]);
    if (changed !== undefined) this.#reveal(changed, 'smooth');
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
      // It is in view already, under a finger: scrolling it away would be a surprise.
      this.#revealed = aspect;
      this.#mark();
      this.#ask(promptFrom(this.#selection));
    });
    this.#chips.set(chip, { aspect, phrase });
    return chip;
  }

  #mark(): void {
    for (const [chip, entry] of this.#chips) chip.ariaPressed = String(this.#isSelected(entry));
  }

  #isSelected({ aspect, phrase }: { readonly aspect: Aspect; readonly phrase: string }): boolean {
    const name = selectionFrom(phrase, NOTHING_SELECTED)[aspect];
    return name !== null && this.#selection[aspect] === name;
  }

  /** Brings what is chosen into view: of every aspect where each has a row of its own, else of this one. */
  #reveal(aspect: Aspect, behavior: 'smooth' | 'instant'): void {
    this.#revealed = aspect;
    for (const [chip, entry] of this.#chips) {
      if (!this.#isSelected(entry)) continue;
      if (chip.parentElement) scrollInto(chip.parentElement, chip, behavior);
      if (entry.aspect === aspect) scrollInto(this.#root, chip, behavior);
    }
  }
}

const NAMES: Readonly<Record<Aspect, string>> = { place: 'Place', time: 'Time', weather: 'Weather' };

function chipGroup(name: string, chips: readonly HTMLButtonElement[]): HTMLElement {
  return create('div', { className: 'chip-group', role: 'group', ariaLabel: name }, ...chips);
}

/** Scrolls sideways only, and only the row: `scrollIntoView` would move the page as well. */
function scrollInto(row: HTMLElement, chip: HTMLElement, behavior: 'smooth' | 'instant'): void {
  if (row.scrollWidth <= row.clientWidth) return;
  const left = row.scrollLeft + chip.getBoundingClientRect().left - row.getBoundingClientRect().left - (row.clientWidth - chip.offsetWidth) / 2;
  row.scrollTo({ left, behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'instant' : behavior });
}
