import { byId, create } from './dom.ts';

/** The first and the last thing that a person sees: the invitation, the line, and the end. */
export class Poster {
  readonly #join = byId('join', HTMLButtonElement);
  readonly #label = this.#join.querySelector('span') ?? this.#join;
  readonly #tagline = byId('tagline', HTMLElement);
  readonly #note = byId('poster-note', HTMLElement);
  readonly #invitation = [...this.#tagline.childNodes].map((node) => node.cloneNode());

  constructor(pressed: () => void) {
    this.#join.addEventListener('click', pressed);
  }

  connecting(): void {
    this.#show('Connecting…', true, this.#invitation);
  }

  waiting(position: number | null): void {
    const place = position === null ? 'You are in line' : position === 1 ? 'You are next' : `You are number ${position} in line`;
    this.#show('Leave the line', true, this.#invitation, create('strong', { textContent: place }), 'Every seat is taken; you enter as soon as one is free.');
  }

  closed(title: string, detail: string): void {
    this.#show('Rejoin', false, [title], detail);
    this.#join.focus({ preventScroll: true });
  }

  #show(label: string, busy: boolean, tagline: readonly (Node | string)[], ...note: (Node | string)[]): void {
    this.#label.textContent = label;
    this.#join.ariaBusy = String(busy);
    this.#tagline.replaceChildren(...tagline.map((node) => (typeof node === 'string' ? node : node.cloneNode())));
    // Told again only when it has changed: a screen reader reads the line's every word.
    const told = note.map((node) => (typeof node === 'string' ? node : node.textContent)).join(' ');
    if (this.#note.dataset['told'] === told) return;
    this.#note.dataset['told'] = told;
    this.#note.replaceChildren(...note);
  }
}
