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
    window.addEventListener('keydown', (event) => !event.repeat && this.#add(event.timeStamp, `key:${event.key}`), { capture: true });
    window.addEventListener('keyup', (event) => this.#add(event.timeStamp, `keyup:${event.key}`), { capture: true });
    window.addEventListener('pointerdown', (event) => this.#add(event.timeStamp, `pointer:${nameOf(event.target)}`), { capture: true });
    window.addEventListener('click', (event) => this.#add(event.timeStamp, `click:${nameOf(event.target)}`), { capture: true });
  }

  mark(what: string): number {
    return this.#add(performance.now(), `mark:${what}`);
  }

  #add(hardware: number, what: string): number {
    const t = performance.now();
    this.#log.add({ kind: 'press', t, hardware, what, audio: this.#ear.now() });
    return t;
  }
}

function nameOf(target: EventTarget | null): string {
  if (!(target instanceof Element)) return '';
  const control = target.closest('button, a, input, select, [role]') ?? target;
  return control.getAttribute('aria-label') ?? (control.textContent.trim().slice(0, 40) || control.tagName.toLowerCase());
}
