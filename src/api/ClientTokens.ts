import { createHash, randomBytes } from 'node:crypto';
import { errors, jwtVerify, SignJWT } from 'jose';
import { SegueError } from '../protocol/errors.ts';
import { ROLES, type Role } from '../sessions/ports.ts';

const ISSUER = 'segue';
const AUDIENCE = 'segue-client';

export interface ClientToken {
  readonly sessionId: string;
  readonly roles: readonly Role[];
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

  async issue({ sessionId, roles }: ClientToken): Promise<IssuedToken> {
    const expiresAtSeconds = Math.ceil((Date.now() + this.#ttlMs) / 1000);
    const token = await new SignJWT({ roles: [...roles] })
      .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
      .setIssuer(ISSUER)
      .setAudience(AUDIENCE)
      .setSubject(sessionId)
      .setIssuedAt()
      .setExpirationTime(expiresAtSeconds)
      .sign(this.#key);
    return { token, expiresAt: new Date(expiresAtSeconds * 1000).toISOString() };
  }

  /** Throws token_expired or unauthorized. Whether it is for *this* session is the caller's to check. */
  async verify(token: string): Promise<ClientToken> {
    try {
      const { payload } = await jwtVerify(token, this.#key, { algorithms: ['HS256'], issuer: ISSUER, audience: AUDIENCE, requiredClaims: ['sub', 'exp'] });
      const roles = Array.isArray(payload['roles']) ? payload['roles'].filter((role): role is Role => (ROLES as readonly unknown[]).includes(role)) : [];
      if (payload.sub === undefined || roles.length === 0) throw new SegueError('unauthorized', 'the token names no session or role');
      return { sessionId: payload.sub, roles };
    } catch (error) {
      if (error instanceof SegueError) throw error;
      if (error instanceof errors.JWTExpired) throw new SegueError('token_expired', 'the token has expired', { cause: error });
      throw new SegueError('unauthorized', 'the token is not valid', { cause: error });
    }
  }
}
