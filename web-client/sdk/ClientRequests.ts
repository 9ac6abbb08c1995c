import type { ClientEvents } from './client_events.ts';
import type { SessionAdapter, SessionRequest } from './messages.ts';
import type { RequestHandle } from './RequestBook.ts';
import { TypedEmitter } from './TypedEmitter.ts';

/** What can be asked of a session. How a request is sent, and what this person's own screen does about it at once, is the client's. */
export abstract class ClientRequests extends TypedEmitter<ClientEvents> {
  /**
   * Changes the world. Unless `seamless`, the picture freezes and the sound stops in this call, until the first new frame.
   * `adapter` comes with it, or (null) goes; left out, it stays as it was last asked for.
   * A prompt without words, or of more than 1,000 characters, is refused: the handle's promises reject with `bad_request`, and nothing freezes.
   * Throws ClientError `closed` or `rate_limited`.
   */
  redirect(prompt: string, { seamless = false, adapter }: { readonly seamless?: boolean; readonly adapter?: SessionAdapter | null } = {}): RequestHandle {
    return this.ask(prompt, (id, text) => ({ type: 'redirect', id, prompt: text, ...(adapter === undefined ? {} : { adapter }), ...(seamless && this.flows ? { seamless: true } : {}) }));
  }

  /**
   * The same world with one of the model's adapters (`ready.adapters`), at a scale of 0 to 1.5, default 1; null: without. Nothing freezes unless
   * `seamless` is false: the change shows in the next frames that are made. Words that are still being understood stay asked for.
   * Throws ClientError `closed` or `rate_limited`; an adapter that can't be used is told by the handle, with `adapter_not_usable`.
   */
  setAdapter(adapter: SessionAdapter | null, { seamless = true }: { readonly seamless?: boolean } = {}): RequestHandle {
    return this.request((id) => ({ type: 'redirect', id, adapter, ...(seamless && this.flows ? { seamless: true } : {}) }));
  }

  /** As a redirect that freezes, but a new shot: the new world comes at once and whole, and carries over nothing of the picture before. */
  cut(prompt: string): RequestHandle {
    return this.ask(prompt, (id, text) => ({ type: 'cut', id, prompt: text }));
  }

  /** Goes over into another world by degrees, over so many chunks (2 to 120; 12 where left out). `applied` tells of the first of them, the event `completed` of the last. */
  blend(prompt: string, { chunks }: { readonly chunks?: number } = {}): RequestHandle {
    return this.ask(prompt, (id, text) => (this.flows ? { type: 'blend', id, prompt: text, ...(chunks === undefined ? {} : { chunks }) } : { type: 'redirect', id, prompt: text }));
  }

  /**
   * Perhaps an interruption: stops what the server sends, and loses nothing. What is on its way is still seen and heard; then the picture stands, until
   * {@link release} goes on exactly there, or `interrupt`, `redirect` or `cut` makes an interruption of it. The server releases it after 2 s.
   */
  hold(): RequestHandle {
    const handle = this.request((id) => ({ type: 'hold', id }));
    this.setHolding(true);
    return handle;
  }

  /** It was no interruption. Without a hold in force it changes nothing. */
  release(): RequestHandle {
    const handle = this.request((id) => ({ type: 'release', id }));
    this.setHolding(false);
    return handle;
  }

  /** Freezes the picture and stops the sound in this call, then tells the server. They stay so until `redirect` or `resume`. */
  interrupt(): RequestHandle {
    return this.request((id) => ({ type: 'interrupt', id }));
  }

  /**
   * Goes back to a moment of the story, in media time (as `frame` events and `session` updates tell it), and on from there as another future: the picture freezes until
   * the first frame of that. `accepted` tells where it goes at most, `applied` the very frame. `exact`: bit-equal also where it lies so far back that only the clean latents are kept.
   * A moment that isn't kept any more is `not_kept`, and the story goes on from where it was. Throws ClientError `closed` or `rate_limited`.
   */
  rewind(media90k: number, { exact = false }: { readonly exact?: boolean } = {}): RequestHandle {
    return this.request((id) => ({ type: 'rewind', id, media90k: Math.max(0, Math.floor(media90k)), ...(exact ? { exact } : {}) }));
  }

  pause(): RequestHandle {
    return this.request((id) => ({ type: 'pause', id }));
  }

  /** Goes on after `pause` or `interrupt`. */
  resume(): RequestHandle {
    const handle = this.request((id) => ({ type: 'resume', id }));
    this.released();
    return handle;
  }

  /** While the picture is frozen nothing flows that a change could join. */
  protected abstract get flows(): boolean;
  /** A request with words: refused here where there are none, or too many. */
  protected abstract ask(prompt: string, make: (id: string, text: string) => SessionRequest): RequestHandle;
  protected abstract request(make: (id: string) => SessionRequest): RequestHandle;
  protected abstract setHolding(holding: boolean): void;
  /** What this page has frozen may move again. */
  protected abstract released(): void;
}
