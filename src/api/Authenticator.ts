import { SegueError } from '../protocol/errors.ts';
import type { Role } from '../sessions/ports.ts';
import type { ApiKeys } from './ApiKeys.ts';
import type { ClientTokens, ShareToken } from './ClientTokens.ts';

/** Who calls: a back end with a key, or the client of one session. */
export type Principal = { readonly kind: 'key' } | ({ readonly kind: 'share' } & ShareToken) | { readonly kind: 'client'; readonly sessionId: string; readonly roles: readonly Role[] };

/** What a route asks for. `share`: the token of a share link. `session`: a key, or a token of the session in the path with that role. */
export type Access = 'public' | 'key' | 'any' | 'share' | { readonly session: Role };

/** Bearer keys and tokens (RFC 6750). */
export class Authenticator {
  readonly #keys: ApiKeys;
  readonly #tokens: ClientTokens;

  constructor(keys: ApiKeys, tokens: ClientTokens) {
    this.#keys = keys;
    this.#tokens = tokens;
  }

  /**
   * @param queryToken from where headers can't be set (EventSource, WebSocket); a key is not taken from there, for addresses end up in logs.
   * Errors: unauthorized, token_expired, forbidden.
   */
  async authenticate(access: Access, authorization: string | undefined, sessionId: string | undefined, queryToken: string | null = null): Promise<Principal | null> {
    if (access === 'public') return null;
    const bearer = /^Bearer +([^ ]{1,4096})$/i.exec(authorization ?? '')?.[1];
    if (access === 'share') {
      if (bearer === undefined) throw new SegueError('unauthorized', 'the token of a share link is needed');
      return { kind: 'share', ...(await this.#tokens.verifyShare(bearer)) };
    }
    if (bearer !== undefined && this.#keys.matches(bearer)) return { kind: 'key' };
    const token = bearer ?? queryToken;
    if (token === null || token === '') throw new SegueError('unauthorized', 'an Authorization header with a bearer key or token is needed');
    const client = await this.#tokens.verify(token);
    if (access === 'key') throw new SegueError('forbidden', 'this call needs an API key');
    if (access !== 'any') {
      if (client.sessionId !== sessionId) throw new SegueError('forbidden', 'the token is for another session');
      if (!client.roles.includes(access.session) && !(access.session === 'watch' && client.roles.length > 0)) throw new SegueError('forbidden', `the token has no role ${access.session}`);
    }
    return { kind: 'client', ...client };
  }
}
