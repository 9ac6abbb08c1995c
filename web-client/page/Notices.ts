import type { ClientError, PromptWarning, SegueClient, SessionRequest } from '../sdk/index.ts';
import type { Toasts } from './Toasts.ts';
import { unknownWords } from './vocabulary.ts';
import { budgetText, listed, sentence, warningText } from './wording.ts';

/** What a session has to say beside its pictures: words without effect, requests that failed, its end drawing near. */
export class Notices {
  readonly #toasts: Toasts;
  #vocabulary: readonly string[] = [];
  /** Takes away what was said of the last request. */
  #forgetAnswer = (): void => undefined;

  constructor(toasts: Toasts) {
    this.#toasts = toasts;
  }

  /** `warnings`: of the prompt that the session was created with. */
  follow(client: SegueClient, warnings: readonly PromptWarning[]): void {
    client.once('ready', ({ vocabulary }) => {
      this.#vocabulary = vocabulary;
      this.#warn(warnings);
    });
    // Said with the first of a request's answers that tells it.
    let warned: string | null = null;
    for (const answered of ['accepted', 'applied'] as const) {
      client.on(answered, ({ re, warnings = [] }) => {
        if (re === warned) return;
        this.#forgetAnswer();
        if (this.#warn(warnings)) warned = re;
      });
    }
    let stillThere = (): void => undefined;
    const inSeconds = (ms: number): string => `This drive ends in ${Math.ceil(ms / 1000)} s.`;
    client.on('goaway', ({ deadlineMs }) => this.#toasts.show('The server is shutting down', { detail: inSeconds(deadlineMs), shownMs: deadlineMs }));
    client.on('budget', ({ resource, used, limit }) => this.#toasts.show('This drive is nearly over', { detail: budgetText(resource, limit - used) }));
    client.on('idle', ({ closesInMs }) => {
      stillThere();
      stillThere = this.#toasts.show('Still there?', { detail: inSeconds(closesInMs), shownMs: closesInMs, action: { label: 'I’m here', run: () => client.keepAlive() } });
    });
  }

  /** The picture comes by the longer way. */
  detour(): void {
    this.#toasts.show('This network blocks direct video', { detail: 'Picture and sound come over a WebSocket instead, a little later than they could.' });
  }

  /** A request that came to nothing, or (null) trouble that the session survives. */
  failed(error: ClientError, request: SessionRequest | null): void {
    if (request === null) {
      this.#toasts.show('Something went wrong', { alarm: true, detail: sentence(error.message) });
      return;
    }
    this.#forgetAnswer();
    if ('prompt' in request && request.prompt !== undefined && error.code === 'prompt_not_understood') {
      const unknown = unknownWords(request.prompt, this.#vocabulary);
      this.#forgetAnswer = this.#toasts.show('No place, time or weather in that', { alarm: true, detail: unknown.length > 0 ? `I don’t know: ${listed(unknown)}.` : sentence(error.message) });
    } else this.#forgetAnswer = this.#toasts.show(`That didn’t work: ${request.type}`, { alarm: true, detail: sentence(error.message) });
  }

  /** Returns whether there was something to say. */
  #warn(warnings: readonly PromptWarning[]): boolean {
    if (warnings.length === 0) return false;
    this.#forgetAnswer = this.#toasts.show('Not every word had an effect', { detail: warnings.map(warningText).join(' ') });
    return true;
  }
}
