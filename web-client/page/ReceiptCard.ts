import type { FrameReceipt, SessionStory } from '../sdk/index.ts';
import { byId, create } from './dom.ts';
import type { Toasts } from './Toasts.ts';
import { clock } from './wording.ts';

/** Frames that were just presented are known to the server a moment later. */
const AGAIN_MS = 400;
const TRIES = 4;

/** What made the picture that stands: shown while it does. */
export class ReceiptCard {
  readonly #root = byId('receipt', HTMLDetailsElement);
  readonly #facts = byId('receipt-facts', HTMLElement);
  readonly #toasts: Toasts;
  #receipt: FrameReceipt | null = null;
  /** Of the picture that is asked about; another one makes an answer void. */
  #asked = 0;

  constructor(toasts: Toasts) {
    this.#toasts = toasts;
    byId('receipt-copy', HTMLButtonElement).addEventListener('click', () => void this.#copy());
    this.#root.open = matchMedia('(min-width: 901px)').matches;
  }

  /** Of the last frame that the server knows to be seen: that is where the story stands. */
  async show(story: SessionStory): Promise<void> {
    const asked = ++this.#asked;
    for (let tries = 0; tries < TRIES && asked === this.#asked; tries++) {
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      try {
        const { presented90k } = await story.session();
        const receipt = await story.receipt(Math.max(0, presented90k - 1));
        if (asked !== this.#asked) return;
        this.#receipt = receipt;
        this.#facts.replaceChildren(...factsOf(receipt).flatMap(([name, value, title]) => [create('dt', { textContent: name }), create('dd', { textContent: value, title: title ?? value })]));
        this.#root.hidden = false;
        return;
      } catch {
        // Not told yet, or not kept: then there is nothing to show.
      }
    }
  }

  hide(): void {
    this.#asked += 1;
    this.#root.hidden = true;
  }

  async #copy(): Promise<void> {
    const text = JSON.stringify(this.#receipt, null, 2);
    try {
      await navigator.clipboard.writeText(text);
      this.#toasts.show('Receipt copied', { detail: 'What made this picture, as JSON.' });
    } catch {
      this.#toasts.show('The receipt', { detail: text, shownMs: Infinity });
    }
  }
}

function factsOf({ plan, mix, media90k, chunk, frameInChunk, epoch, seed, lineage, action, adapter, weightsVersion, latents, requests }: FrameReceipt): readonly (readonly [name: string, value: string, title?: string])[] {
  const steer = action === null ? '' : (['left', 'straight', 'right'][action.steer + 1] ?? '');
  return [
    ['Plan', plan.words],
    ...(mix.length === 0 ? [] : [['Blended with', mix.map(({ words, weight }) => `${words} (${Math.round(weight * 100)} %)`).join(', ')] as const]),
    ['Moment', `${clock(media90k)} · chunk ${chunk}, frame ${frameInChunk} · epoch ${epoch}`],
    ['Held', action === null ? 'nothing: a start frame' : `${steer}, speed ${action.speed}`],
    ['Style', adapter === null ? 'none' : `${adapter.id} at ${adapter.scale}`],
    ['Seed', `${seed} · future ${lineage}`],
    ['Asked by', requests.active.join(', ') || 'the opening'],
    ['Weights', short(weightsVersion), weightsVersion],
    ['Latents', `${short(latents.sha256)} · ${latents.shape.join(' × ')}`, latents.sha256],
  ];
}

function short(hash: string): string {
  return hash.length > 14 ? `${hash.slice(0, 12)}…` : hash;
}
