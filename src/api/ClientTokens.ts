import { createHash, randomBytes } from 'node:crypto';
import { errors, jwtVerify, SignJWT, type JWTPayload } from 'jose';
import { SegueError } from '../protocol/errors.ts';
import { ROLES, type Role } from '../sessions/ports.ts';

const ISSUER = 'segue';
const AUDIENCE = 'segue-client';
/** Of another audience, so that a share is nobody's client token. */
const SHARE_AUDIENCE = 'segue-share';

export interface ClientToken {
  readonly sessionId: string;
  readonly roles: readonly Role[];
}

/** What a share link gives: to play that much of a session again, and nothing else. */
export interface ShareToken {
  readonly sessionId: string;
  readonly from90k: number;
  readonly to90k: number;
}

export interface IssuedToken {
  readonly token: string;
  /** Calendar time, ISO 8601. */
  readonly expiresAt: string;
}

/** Short-lived tokens for one session with some roles: JWT, HS256 (RFC 7519). */
export class ClientTokens {
  readonly #key: Uint8Array;
  readonly #ttlMs: number;

  /** @param secret empty: random, so that tokens end with the process. */
  constructor({ secret, ttlMs }: { readonly secret: string; readonly ttlMs: number }) {
    this.#key = secret === '' ? randomBytes(32) : createHash('sha256').update(secret, 'utf8').digest();
    this.#ttlMs = ttlMs;
  }

  issue({ sessionId, roles }: ClientToken): Promise<IssuedToken> {
    return this.#sign(AUDIENCE, sessionId, { roles: [...roles] }, this.#ttlMs);
  }

  issueShare({ sessionId, from90k, to90k }: ShareToken, ttlMs: number): Promise<IssuedToken> {
    return this.#sign(SHARE_AUDIENCE, sessionId, { from90k, to90k }, ttlMs);
  }

  /** Throws token_expired or unauthorized. Whether it is for *this* session is the caller's to check. */
  async verify(token: string): Promise<ClientToken> {
    const payload = await this.#verified(AUDIENCE, token);
    const roles = Array.isArray(payload['roles']) ? payload['roles'].filter((role): role is Role => (ROLES as readonly unknown[]).includes(role)) : [];
    if (payload.sub === undefined || roles.length === 0) throw new SegueError('unauthorized', 'the token names no session or role');
    return { sessionId: payload.sub, roles };
  }

  /** Throws token_expired or unauthorized. */
  async verifyShare(token: string): Promise<ShareToken> {
    const { sub, from90k, to90k } = await this.#verified(SHARE_AUDIENCE, token);
    if (sub === undefined || !Number.isSafeInteger(from90k) || !Number.isSafeInteger(to90k)) throw new SegueError('unauthorized', 'the token shares nothing');
    return { sessionId: sub, from90k: from90k as number, to90k: to90k as number };
  }

  async #sign(audience: string, subject: string, claims: JWTPayload, ttlMs: number): Promise<IssuedToken> {
    const expiresAtSeconds = Math.ceil((Date.now() + ttlMs) / 1000);
    const token = await new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
      .setIssuer(ISSUER)
      .setAudience(audience)
      .setSubject(subject)
      .setIssuedAt()
      .setExpirationTime(expiresAtSeconds)
      .sign(this.#key);
    return { token, expiresAt: new Date(expiresAtSeconds * 1000).toISOString() };
  }

  async #verified(audience: string, token: string): Promise<JWTPayload> {
    try {
      const { payload } = await jwtVerify(token, this.#key, { algorithms: ['HS256'], issuer: ISSUER, audience, requiredClaims: ['sub', 'exp'] });
      return payload;
    } catch (error) {
      if (error instanceof errors.JWTExpired) throw new SegueError('token_expired', 'the token has expired', { cause: error });
      throw new SegueError('unauthorized', 'the token is not valid', { cause: error });
    }
  }
}
