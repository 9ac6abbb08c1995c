import type { Speed } from '../sdk/index.ts';
import { create } from './dom.ts';

const NAMES: readonly string[] = ['Stop', 'Slow', 'Cruise', 'Fast'];

/** A group of radio buttons with one stop in the tab order; arrows move within it. */
export class SpeedControl {
  readonly #buttons: HTMLButtonElement[];

  constructor(root: HTMLElement, choose: (speed: Speed) => void) {
    this.#buttons = NAMES.map((name, speed) => {
      const button = create('button', { type: 'button', role: 'radio', textContent: name });
      button.dataset['testid'] = `speed-${speed}`;
      button.addEventListener('click', () => choose(speed as Speed));
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

  show(speed: Speed): void {
    this.#buttons.forEach((button, index) => {
      button.ariaChecked = String(index === speed);
      button.tabIndex = index === speed ? 0 : -1;
    });
  }
}
