import type { PressSample } from '../samples.ts';
import type { Ear } from './Ear.ts';
import type { Log } from './Log.ts';

/** Logs keys and pointers as they go down, before any handler of the page can react. */
export class Presses {
  readonly #log: Log;
  readonly #ear: Ear;

  constructor(log: Log, ear: Ear) {
    this.#log = log;
    this.#ear = ear;
  }

  install(): void {
    const listen = (type: 'keydown' | 'keyup' | 'pointerdown' | 'click' | 'submit', name: (event: Event) => string | null): void =>
      window.addEventListener(
        type,
        (event) => {
          const what = name(event);
          if (what !== null) this.#pressed(event, what);
        },
        { capture: true },
      );
    listen('keydown', (event) => ((event as KeyboardEvent).repeat ? null : `key:${(event as KeyboardEvent).key}`));
    listen('keyup', (event) => `keyup:${(event as KeyboardEvent).key}`);
    listen('pointerdown', ({ target }) => `pointer:${nameOf(target)}`);
    listen('click', ({ target }) => `click:${nameOf(target)}`);
    listen('submit', ({ target }) => `submit:${target instanceof Element ? target.id : ''}`);
  }

  mark(what: string): number {
    return this.#add(performance.now(), `mark:${what}`).t;
  }

  /** A listener that is added now, while the event comes down, stands behind all that the page has added: it runs when they have run. */
  #pressed(event: Event, what: string): void {
    const sample = this.#add(event.timeStamp, what);
    window.addEventListener(event.type, () => (sample.handled = { t: performance.now(), audio: this.#ear.now() }), { once: true });
  }

  #add(hardware: number, what: string): PressSample & { handled: PressSample['handled'] } {
    const sample = { kind: 'press' as const, t: performance.now(), hardware, what, audio: this.#ear.now(), handled: null as PressSample['handled'] };
    this.#log.add(sample);
    return sample;
  }
}

function nameOf(target: EventTarget | null): string {
  if (!(target instanceof Element)) return '';
  const control = target.closest('button, a, input, select, [role]') ?? target;
  return control.getAttribute('aria-label') ?? (control.textContent.trim().slice(0, 40) || control.tagName.toLowerCase());
}
