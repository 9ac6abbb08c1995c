import { pino, type Logger } from 'pino';

export type { Logger };

/**
 * The process's root logger. One child per session (`{ sessionId }`); `info` at most about once a second per session;
 * personal data (prompts, tokens, addresses) only under `pii`, which is redacted unless `level` is `trace`.
 */
export function createLogger({ level, name = 'segue' }: { readonly level: string; readonly name?: string }): Logger {
  return pino({ name, level, base: {}, ...(level === 'trace' ? {} : { redact: { paths: ['pii', '*.pii'], censor: '[pii]' } }) });
}
