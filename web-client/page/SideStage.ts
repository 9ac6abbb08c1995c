import { joinSession, type Forked, type SegueClient } from '../sdk/index.ts';
import { byId, create } from './dom.ts';

const STATES: Readonly<Record<string, string>> = { connecting: 'Joining', redirecting: 'Imagining…', held: 'Held', paused: 'Paused', reconnecting: 'Rejoining', holding: 'On hold' };

/** A fork beside the story that it left: a smaller picture with a prompt of its own. One at a time. */
export class SideStage {
  readonly #root = byId('side', HTMLElement);
  readonly #frame = byId('side-frame', HTMLElement);
  readonly #prompt = byId('side-prompt', HTMLInputElement);
  readonly #status = byId('side-status', HTMLElement);
  #client: SegueClient | null = null;
  #canvas: HTMLCanvasElement | null = null;

  /** @param swap the other future takes the large stage. */
  constructor(swap: () => void) {
    byId('side-form', HTMLFormElement).addEventListener('submit', (event) => {
      event.preventDefault();
      const prompt = this.#prompt.value.trim();
      if (prompt !== '') this.#client?.redirect(prompt);
      this.#prompt.value = '';
      this.#prompt.blur();
    });
    byId('side-swap', HTMLButtonElement).addEventListener('click', swap);
    this.#frame.addEventListener('click', swap);
    byId('side-close', HTMLButtonElement).addEventListener('click', () => this.close());
  }

  get client(): SegueClient | null {
    return this.#client;
  }

  /** Joins a fork, silently: the large stage is the one that is heard. */
  open({ session, clientToken }: Forked, { baseUrl, audio, transport, camera }: { readonly baseUrl: string; readonly audio: AudioContext | null; readonly transport: 'auto' | 'webrtc' | 'websocket'; readonly camera: MediaStreamTrack | null }): SegueClient {
    this.close();
    const canvas = create('canvas', { className: 'world', width: 224, height: 128 });
    canvas.role = 'img';
    canvas.ariaLabel = 'The other future';
    const client = joinSession({ baseUrl, sessionId: session, clientToken, canvas, audio: audio ?? false, transport, ...(camera === null ? {} : { camera }) });
    client.setVolume(0);
    this.show(client, canvas);
    this.#prompt.focus({ preventScroll: true });
    return client;
  }

  /** What was here goes to the large stage. Returns it. */
  swap(client: SegueClient, canvas: HTMLCanvasElement): { readonly client: SegueClient; readonly canvas: HTMLCanvasElement } | null {
    if (this.#client === null || this.#canvas === null) return null;
    const was = { client: this.#client, canvas: this.#canvas };
    this.show(client, canvas);
    return was;
  }

  show(client: SegueClient, canvas: HTMLCanvasElement): void {
    this.#client = client;
    this.#canvas = canvas;
    this.#frame.prepend(canvas);
    this.#root.hidden = false;
    document.body.toggleAttribute('data-side', true);
    this.showState(client);
  }

  showState(client: SegueClient): void {
    if (client === this.#client) this.#status.textContent = STATES[client.state] ?? '';
  }

  /** Its client has ended. */
  ended(client: SegueClient): void {
    if (client !== this.#client) return;
    this.#client = null;
    this.#canvas?.remove();
    this.#canvas = null;
    this.#root.hidden = true;
    document.body.toggleAttribute('data-side', false);
  }

  /** Idempotent. */
  close(): void {
    const client = this.#client;
    if (client === null) return;
    this.ended(client);
    void client.close('The other future was closed.');
  }
}
