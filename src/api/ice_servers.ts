import { createHmac } from 'node:crypto';
import type { Config } from './config_schema.ts';

export interface IceServerView {
  urls: string[];
  username?: string;
  credential?: string;
}

/**
 * The servers a client is given. TURN servers that share a secret get credentials that expire: the user name is the time of expiry,
 * the password its HMAC. Source: draft-uberti-behave-turn-rest-00.
 */
export function iceServers({ servers, turnUrls, turnSecret, turnTtlMs }: Config['ice'], user: string, nowMs: number): IceServerView[] {
  const configured = servers.map(({ urls, username, credential }) => ({ urls: [...urls], ...(username === undefined ? {} : { username }), ...(credential === undefined ? {} : { credential }) }));
  if (turnUrls.length === 0 || turnSecret === '') return configured;
  const username = `${Math.floor((nowMs + turnTtlMs) / 1000)}:${user}`;
  const credential = createHmac('sha1', turnSecret).update(username).digest('base64');
  return [...configured, { urls: [...turnUrls], username, credential }];
}
