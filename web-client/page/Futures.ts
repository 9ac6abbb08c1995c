import { ClientError, type SegueClient } from '../sdk/index.ts';
import { byId } from './dom.ts';
import { ReceiptCard } from './ReceiptCard.ts';
import { SideStage } from './SideStage.ts';
import { Timeline } from './Timeline.ts';
import type { Toasts } from './Toasts.ts';
import { clock, sentence } from './wording.ts';

export interface FuturesHost {
  readonly baseUrl: string;
  readonly transport: 'auto' | 'webrtc' | 'websocket';
  readonly toasts: Toasts;
  /** On the large stage. */
  client(): SegueClient | null;
  canvas(): HTMLCanvasElement;
  audio(): AudioContext | null;
  /** What the drive is made of: a fork is made of it, too. Null: of nothing that comes in. */
  camera(): MediaStreamTrack | null;
  /** Takes part in another session, beside the one on the large stage. */
  follow(client: SegueClient): void;
  /** Another client, with its picture, is the one on the large stage. */
  take(client: SegueClient, canvas: HTMLCanvasElement): void;
}

/** What was, and what else could be: the timeline, forks beside the story, links to it, and what made a picture that stands. */
export class Futures {
  readonly timeline = new Timeline(byId('timeline', HTMLElement), byId('moments', HTMLOListElement), byId('stage', HTMLElement), { rewind: (media90k) => this.#rewind(media90k), fork: (media90k) => void this.fork(media90k) });
  readonly side = new SideStage(() => this.swap());
  readonly #host: FuturesHost;
  readonly #receipt: ReceiptCard;
  #forking = false;

  constructor(host: FuturesHost) {
    this.#host = host;
    this.#receipt = new ReceiptCard(host.toasts);
    byId('share', HTMLButtonElement).addEventListener('click', () => void this.#share());
  }

  /** The picture on the large stage stands, or moves. */
  standing(client: SegueClient, stands: boolean): void {
    if (stands) void this.#receipt.show(client.story);
    else this.#receipt.hide();
  }

  /** Another future from there on, beside this one. */
  async fork(media90k: number): Promise<void> {
    const { toasts, baseUrl, transport } = this.#host;
    const client = this.#host.client();
    if (client === null || this.#forking || document.body.dataset['mode'] === 'replay') return;
    this.#forking = true;
    const done = toasts.show(`Forking at ${clock(media90k)}…`, { shownMs: 10_000 });
    try {
      const forked = await client.fork({ media90k }).forked;
      this.#host.follow(this.side.open(forked, { baseUrl, audio: this.#host.audio(), transport, camera: this.#host.camera() }));
    } catch {
      // The client's `error` event says why.
    } finally {
      this.#forking = false;
      done();
    }
  }

  /** The two futures change places. */
  swap(): void {
    const client = this.#host.client();
    const other = client === null ? null : this.side.swap(client, this.#host.canvas());
    if (client === null || other === null) return;
    client.setVolume(0);
    this.#receipt.hide();
    byId('stage', HTMLElement).prepend(other.canvas);
    this.#host.take(other.client, other.canvas);
    this.timeline.follow(other.client);
  }

  /** A client has ended. True: it was the one beside, and the story goes on. */
  ended(client: SegueClient): boolean {
    if (client === this.side.client) {
      this.side.ended(client);
      return true;
    }
    if (client !== this.#host.client()) return true;
    this.side.close();
    this.timeline.clear();
    this.#receipt.hide();
    return false;
  }

  #rewind(media90k: number): void {
    try {
      this.#host.client()?.rewind(media90k);
    } catch (error) {
      this.#host.toasts.show('That didn’t work: rewind', { alarm: true, detail: sentence(error instanceof Error ? error.message : String(error)) });
    }
  }

  async #share(): Promise<void> {
    const { toasts, baseUrl } = this.#host;
    const client = this.#host.client();
    if (client === null) return;
    try {
      const { url, expiresAt } = await client.story.share();
      const link = new URL(url.replace(/^\//, ''), baseUrl).href;
      const until = new Date(expiresAt).toLocaleDateString(undefined, { day: 'numeric', month: 'long' });
      try {
        await navigator.clipboard.writeText(link);
        toasts.show('Link copied', { detail: `It plays what was seen so far, until ${until}.` });
      } catch {
        toasts.show('A link to what was seen', { detail: link, shownMs: Infinity });
      }
    } catch (error) {
      toasts.show('No link to share', { alarm: true, detail: sentence(error instanceof ClientError ? error.message : String(error)) });
    }
  }
}
