import { ClientError } from './ClientError.ts';
import type { CreatedReplay, FrameReceipt, MemoryView, SessionView, Share, StoryBranches } from './messages.ts';
import { errorOf } from './Signalling.ts';

const CALL_TIMEOUT_MS = 15_000;

/** What a session has shown, by REST: its frames with what made them, its words at their media times, and links to all of it. The token is for that session only. */
export class SessionStory {
  readonly #base: string;
  readonly #token: string;

  constructor(baseUrl: string, sessionId: string, clientToken: string) {
    this.#base = new URL(`v1/sessions/${encodeURIComponent(sessionId)}/`, baseUrl).href;
    this.#token = clientToken;
  }

  /** A frame that was presented, decoded again on the server; `width` in pixels, `branch` of a future that was left. Rejects with `not_presented`, `not_kept`. */
  async picture(media90k: number, { width, branch, signal }: { readonly width?: number; readonly branch?: number; readonly signal?: AbortSignal } = {}): Promise<Blob> {
    return (await this.#call('GET', `frames/${Math.floor(media90k)}?format=jpeg${width === undefined ? '' : `&width=${width}`}${branch === undefined ? '' : `&branch=${branch}`}`, undefined, signal)).blob();
  }

  /** What made a frame that was presented. Rejects with `not_presented`, `not_kept`. */
  async receipt(media90k: number): Promise<FrameReceipt> {
    return (await (await this.#call('GET', `frames/${Math.floor(media90k)}/receipt`)).json()) as FrameReceipt;
  }

  async memory(): Promise<MemoryView> {
    return (await (await this.#call('GET', 'memory')).json()) as MemoryView;
  }

  async session(): Promise<SessionView> {
    return (await (await this.#call('GET', '.')).json()) as SessionView;
  }

  /** Where it was gone back in, oldest first: the futures that were left, and the one in force. */
  async branches(): Promise<StoryBranches['branches']> {
    return ((await (await this.#call('GET', 'branches')).json()) as StoryBranches).branches;
  }

  /** A link that plays what was seen so far. Only for who drives. */
  async share(): Promise<Share> {
    return (await (await this.#call('POST', 'shares', {})).json()) as Share;
  }

  async #call(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
    const timeout = AbortSignal.timeout(CALL_TIMEOUT_MS);
    // `.` is the session itself: without the slash at its end.
    const url = path === '.' ? this.#base.slice(0, -1) : new URL(path, this.#base);
    let response: Response;
    try {
      response = await fetch(url, {
        method,
        headers: { authorization: `Bearer ${this.#token}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
      });
    } catch (error) {
      throw new ClientError('network', `${method} ${path}: the server can't be reached`, null, error);
    }
    if (!response.ok) throw errorOf(response, await response.text());
    return response;
  }
}

/** A session that plays what a link shares. Rejects with `token_expired`, `unauthorized`, `not_kept`, `at_capacity` and what else keeps a session from being created. */
export async function createReplay(baseUrl: string, shareToken: string, signal: AbortSignal = AbortSignal.timeout(CALL_TIMEOUT_MS)): Promise<CreatedReplay> {
  let response: Response;
  try {
    response = await fetch(new URL('v1/replays', baseUrl), { method: 'POST', headers: { authorization: `Bearer ${shareToken}` }, signal });
  } catch (error) {
    throw new ClientError('network', 'the server can’t be reached', null, error);
  }
  const text = await response.text();
  if (!response.ok) throw errorOf(response, text);
  return JSON.parse(text) as CreatedReplay;
}
