import type { CreateSession } from '../sdk/messages.ts';

/** What the page's URL asks for: `?transport=websocket&prompt=…&adapter=…&seed=…&stamp=1&overlay=1`. */
export interface PageOptions {
  readonly transport: 'auto' | 'webrtc' | 'websocket';
  readonly overlay: boolean;
  /** Of a link that plays what somebody has seen; null: a drive of one's own. */
  readonly share: string | null;
  readonly session: CreateSession;
}

/** @param hash `#share=…`: a token there reaches no log. */
export function readPageOptions(search: string, hash = ''): PageOptions {
  const query = new URLSearchParams(search);
  const transport = query.get('transport');
  const prompt = query.get('prompt')?.trim();
  const adapter = query.get('adapter')?.trim();
  const seed = Number(query.get('seed') || Number.NaN);
  return {
    transport: transport === 'websocket' || transport === 'webrtc' ? transport : 'auto',
    overlay: query.get('overlay') === '1',
    share: new URLSearchParams(hash.replace(/^#/, '')).get('share') || null,
    session: {
      ...(prompt ? { prompt: prompt.slice(0, 1000) } : {}),
      ...(adapter ? { adapter: { id: adapter.slice(0, 64) } } : {}),
      ...(Number.isInteger(seed) && seed >= 0 && seed <= 0x7fffffff ? { seed } : {}),
      ...(query.get('stamp') === '1' ? { stamp: true } : {}),
    },
  };
}
