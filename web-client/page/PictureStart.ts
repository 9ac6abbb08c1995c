import type { CreateSession } from '../sdk/index.ts';
import { byId } from './dom.ts';

type SessionImage = NonNullable<CreateSession['image']>;

/** Twice the world's size: what is sent is small, and sharp enough for any model of its kind. */
const WIDTH = 448;
const HEIGHT = 256;
const QUALITY = 0.92;

/** A picture that the drive starts from: chosen with the button below Join, or dropped anywhere on the poster. Made small here, so that any photograph will do. */
export class PictureStart {
  readonly #input = byId('picture', HTMLInputElement);
  readonly #chosen = byId('picture-chosen', HTMLElement);
  readonly #preview = byId('picture-preview', HTMLImageElement);
  readonly #note = byId('picture-note', HTMLElement);
  #image: SessionImage | null = null;
  /** Counts choices: only the last one counts, whichever is read first. */
  #choice = 0;

  constructor(poster: HTMLElement) {
    this.#input.addEventListener('change', () => {
      const [file] = this.#input.files ?? [];
      if (file) void this.#choose(file);
    });
    byId('picture-remove', HTMLButtonElement).addEventListener('click', () => {
      this.#choice += 1;
      this.#show(null, 'The picture was removed.');
      this.#input.focus({ preventScroll: true });
    });
    poster.addEventListener('dragover', (event) => {
      if (!event.dataTransfer?.types.includes('Files')) return;
      event.preventDefault();
      if (offered()) poster.dataset['dropping'] = '';
    });
    for (const kind of ['dragleave', 'drop'] as const) poster.addEventListener(kind, () => delete poster.dataset['dropping']);
    poster.addEventListener('drop', (event) => {
      const [file] = event.dataTransfer?.files ?? [];
      if (!file) return;
      event.preventDefault();
      if (offered()) void this.#choose(file);
    });
  }

  /** What to create the session with; null: nothing was chosen. */
  get image(): SessionImage | null {
    return this.#image;
  }

  async #choose(file: Blob): Promise<void> {
    const choice = ++this.#choice;
    let image: SessionImage | null;
    try {
      image = await small(file);
    } catch {
      // The browser says no more than that it can't.
      image = null;
    }
    if (choice !== this.#choice) return;
    if (image === null) this.#show(null, 'This file can’t be read as a picture.', true);
    else this.#show(image, 'The drive will start from this picture.');
  }

  #show(image: SessionImage | null, note: string, fault = false): void {
    this.#image = image;
    this.#input.value = '';
    this.#chosen.hidden = image === null;
    if (image !== null) this.#preview.src = `data:${image.mimeType};base64,${image.data}`;
    this.#note.textContent = note;
    this.#note.toggleAttribute('data-fault', fault);
    this.#note.classList.toggle('visually-hidden', !fault);
  }
}

/** Only before a drive: later the poster is out of sight, and a picture would be chosen unseen. */
function offered(): boolean {
  return ['idle', 'closed'].includes(document.body.dataset['state'] ?? 'idle');
}

/** The picture's middle, covering the world's frame. Rejects for what is no picture. */
async function small(file: Blob): Promise<SessionImage> {
  const bitmap = await createImageBitmap(file);
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [WIDTH, HEIGHT];
  const context = canvas.getContext('2d');
  if (context === null) throw new TypeError('no 2D canvas');
  context.fillStyle = '#fff';
  context.fillRect(0, 0, WIDTH, HEIGHT);
  context.imageSmoothingQuality = 'high';
  const scale = Math.max(WIDTH / bitmap.width, HEIGHT / bitmap.height);
  const [width, height] = [bitmap.width * scale, bitmap.height * scale];
  context.drawImage(bitmap, (WIDTH - width) / 2, (HEIGHT - height) / 2, width, height);
  bitmap.close();
  const [head, data] = canvas.toDataURL('image/jpeg', QUALITY).split(',');
  if (!data || !head?.startsWith('data:image/jpeg')) throw new TypeError('the canvas made no JPEG');
  return { mimeType: 'image/jpeg', data };
}
