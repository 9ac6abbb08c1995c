import { create } from './dom.ts';

const SHOWN_MS = 6_000;
const MAX_SHOWN = 3;

export interface ToastOptions {
  readonly detail?: string;
  readonly alarm?: boolean;
  /** A toast with an action stays until it is pressed or its time is over. */
  readonly action?: { readonly label: string; run(): void };
  /** Infinity: until it is dismissed. */
  readonly shownMs?: number;
}

/** Short messages that go away by themselves; the oldest gives way to the fourth. */
export class Toasts {
  readonly #root: HTMLElement;

  constructor(root: HTMLElement) {
    this.#root = root;
  }

  /** Returns a function that takes it away again; idempotent. */
  show(message: string, { detail, alarm = false, action, shownMs = SHOWN_MS }: ToastOptions = {}): () => void {
    for (const toast of this.#root.children) if (toast instanceof HTMLElement && toast.dataset['message'] === message) toast.remove();
    const text = create('p', {}, message);
    if (detail !== undefined) text.append(create('small', { textContent: detail }));
    const toast = create('div', { className: alarm ? 'toast alarm' : 'toast' }, text);
    toast.dataset['testid'] = 'toast';
    toast.dataset['message'] = message;
    const button = create('button', { type: 'button', textContent: action?.label ?? 'Dismiss' });
    button.addEventListener('click', () => {
      toast.remove();
      action?.run();
    });
    toast.append(button);
    this.#root.append(toast);
    while (this.#root.children.length > MAX_SHOWN) this.#root.firstElementChild?.remove();
    if (Number.isFinite(shownMs)) setTimeout(() => toast.remove(), shownMs);
    return () => toast.remove();
  }

  clear(): void {
    this.#root.replaceChildren();
  }
}
