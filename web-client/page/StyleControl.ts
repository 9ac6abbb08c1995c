import type { AdapterOffer } from '../sdk/index.ts';
import { create } from './dom.ts';
import { RadioGroup } from './RadioGroup.ts';

/** The model's own look, or one of its adapters; a row among the suggestions. Not there where the model has none. */
export class StyleControl {
  readonly #choose: (adapterId: string | null) => void;
  #offers: readonly AdapterOffer[] = [];
  #group: RadioGroup | null = null;

  constructor(choose: (adapterId: string | null) => void) {
    this.#choose = choose;
  }

  /** Makes the row anew, at the end of `root`. */
  offer(root: HTMLElement, offers: readonly AdapterOffer[]): void {
    this.#offers = offers;
    this.#group = null;
    if (offers.length === 0) return;
    const row = create('div', { className: 'chip-group', role: 'radiogroup', ariaLabel: 'Style' });
    row.dataset['testid'] = 'style';
    const choices = [{ label: 'no style', testId: 'style-off' }, ...offers.map(({ id, title }) => ({ label: title.toLowerCase(), testId: `style-${id}` }))];
    this.#group = new RadioGroup(row, choices, (index) => this.#choose(this.#offers[index - 1]?.id ?? null), 'chip');
    root.append(row);
    this.show(null);
  }

  show(adapterId: string | null): void {
    this.#group?.show(this.#offers.findIndex(({ id }) => id === adapterId) + 1);
  }
}
