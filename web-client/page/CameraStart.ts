import { byId } from './dom.ts';

/** Twice the world's size, and about its rate: what is sent is small. */
const WANTED = { width: { ideal: 448 }, height: { ideal: 256 }, frameRate: { ideal: 15, max: 30 } } as const;

/** "What the camera sees": chosen below Join; the camera is asked for then, shown small, and let go of when the drive ends or it is chosen away. */
export class CameraStart {
  readonly #button = byId('camera', HTMLButtonElement);
  readonly #preview = byId('camera-preview', HTMLVideoElement);
  readonly #note = byId('picture-note', HTMLElement);
  #stream: MediaStream | null = null;
  #asking = false;

  constructor() {
    this.#button.addEventListener('click', () => void this.#toggle());
    // Without a secure context browsers have none to ask for.
    this.#button.hidden = !('mediaDevices' in navigator);
  }

  /** What a session is to be made of; null: nothing was chosen. */
  get track(): MediaStreamTrack | null {
    return this.#stream?.getVideoTracks()[0] ?? null;
  }

  off(): void {
    for (const track of this.#stream?.getTracks() ?? []) track.stop();
    this.#show(null);
  }

  async #toggle(): Promise<void> {
    if (this.#asking) return;
    if (this.#stream !== null) return this.off();
    this.#asking = true;
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ video: WANTED });
      stream.getVideoTracks()[0]?.addEventListener('ended', () => this.off());
      this.#show(stream);
      this.#say('The drive will be what the camera sees, made anew.', false);
    } catch {
      this.#say('There is no camera, or the browser was not allowed to use it.', true);
    } finally {
      this.#asking = false;
    }
  }

  #show(stream: MediaStream | null): void {
    this.#stream = stream;
    this.#button.ariaPressed = String(stream !== null);
    this.#preview.srcObject = stream;
    this.#preview.hidden = stream === null;
  }

  #say(note: string, fault: boolean): void {
    this.#note.textContent = note;
    this.#note.toggleAttribute('data-fault', fault);
    this.#note.classList.toggle('visually-hidden', !fault);
  }
}
