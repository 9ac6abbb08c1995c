import { byId, create } from './dom.ts';
import type { WaitingPlace } from '../sdk/index.ts';
import { waitingText, type Ending } from './wording.ts';

/** Past this a person wonders whether anything happens. */
const PATIENCE_MS = 2_500;

/** The first and the last thing that a person sees: the invitation, the line, and the end. */
export class Poster {
  readonly #join = byId('join', HTMLButtonElement);
  readonly #label = this.#join.querySelector('span') ?? this.#join;
  readonly #tagline = byId('tagline', HTMLElement);
  readonly #note = byId('poster-note', HTMLElement);
  #invitation = [...this.#tagline.childNodes].map((node) => node.cloneNode());

  #patience: ReturnType<typeof setTimeout> | undefined;

  /** @param replay it is somebody else's drive that is watched. */
  constructor(pressed: () => void, replay: boolean) {
    if (replay) this.#invite('A drive that somebody shared.', 'Play');
    this.#join.addEventListener('click', pressed);
  }

  #invite(tagline: string, label: string): void {
    this.#tagline.replaceChildren(tagline);
    this.#label.textContent = label;
    this.#invitation = [...this.#tagline.childNodes].map((node) => node.cloneNode());
  }

  /** The button leaves. `note`: what is tried, where it takes longer than it should. */
  connecting(note = ''): void {
    this.#show(note === '' ? 'Connecting…' : 'Connecting… press to stop', true, this.#invitation, note);
    if (note === '') this.#patience = setTimeout(() => this.connecting('Looking for a way through the network…'), PATIENCE_MS);
  }

  waiting(place: WaitingPlace): void {
    const { title, detail } = waitingText(place);
    this.#show('Leave the line', true, this.#invitation, create('strong', { textContent: title }), detail);
  }

  closed({ title, detail, way }: Ending): void {
    this.#show(way, false, [title], detail);
    this.#join.focus({ preventScroll: true });
  }

  /** The curtain is up: nothing is to be said here until it falls. */
  lifted(): void {
    clearTimeout(this.#patience);
  }

  #show(label: string, busy: boolean, tagline: readonly (Node | string)[], ...note: (Node | string)[]): void {
    clearTimeout(this.#patience);
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
