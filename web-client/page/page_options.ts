import type { CreateSession } from '../sdk/messages.ts';

/** What the page's URL asks for: `?transport=websocket&prompt=…&adapter=…&seed=…&stamp=1&overlay=1`. */
export interface PageOptions {
  readonly transport: 'auto' | 'webrtc' | 'websocket';
  readonly overlay: boolean;
  /** Of a link that plays what somebody has seen; null: a drive of one's own. */
  readonly share: string | null;
  /** Of a link to a session that somebody else has made, as its back end hands it out; null: one of the page's own. */
  readonly join: { readonly id: string; readonly clientToken: string } | null;
  readonly session: CreateSession;
}

/** @param hash `#share=…`, or `#session=…&token=…`: a token there reaches no log. */
export function readPageOptions(search: string, hash = ''): PageOptions {
  const query = new URLSearchParams(search);
  const transport = query.get('transport');
  const prompt = query.get('prompt')?.trim();
  const adapter = query.get('adapter')?.trim();
  const secret = new URLSearchParams(hash.replace(/^#/, ''));
  const [id, clientToken] = [secret.get('session'), secret.get('token')];
  const seed = Number(query.get('seed') || Number.NaN);
  return {
    transport: transport === 'websocket' || transport === 'webrtc' ? transport : 'auto',
    overlay: query.get('overlay') === '1',
    share: secret.get('share') || null,
    join: id && clientToken ? { id, clientToken } : null,
    session: {
      ...(prompt ? { prompt: prompt.slice(0, 1000) } : {}),
      ...(adapter ? { adapter: { id: adapter.slice(0, 64) } } : {}),
      ...(Number.isInteger(seed) && seed >= 0 && seed <= 0x7fffffff ? { seed } : {}),
      ...(query.get('stamp') === '1' ? { stamp: true } : {}),
    },
  };
}
