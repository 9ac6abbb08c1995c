import { create } from './dom.ts';

export interface RadioChoice {
  readonly label: string;
  readonly testId: string;
}

/** A group of radio buttons with one stop in the tab order; arrows move within it. */
export class RadioGroup {
  readonly #buttons: HTMLButtonElement[];

  constructor(root: HTMLElement, choices: readonly RadioChoice[], choose: (index: number) => void, className = '') {
    this.#buttons = choices.map(({ label, testId }, index) => {
      const button = create('button', { type: 'button', role: 'radio', textContent: label, className });
      button.dataset['testid'] = testId;
      button.addEventListener('click', () => choose(index));
      return button;
    });
    root.append(...this.#buttons);
    root.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      const at = this.#buttons.findIndex((button) => button === event.target);
      const next = this.#buttons[at + (step ?? 0)];
      if (step === undefined || at < 0 || !next) return;
      event.preventDefault();
      next.focus();
      next.click();
    });
  }

  show(chosen: number): void {
    this.#buttons.forEach((button, index) => {
      button.ariaChecked = String(index === chosen);
      button.tabIndex = index === chosen ? 0 : -1;
    });
  }
}
