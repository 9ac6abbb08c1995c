import type { Clock } from '../observe/clock.ts';
import type { Logger } from '../observe/log.ts';
import type { Metrics } from '../observe/Metrics.ts';
import type { SessionRegistry } from '../sessions/SessionRegistry.ts';
import type { EngineCard } from '../streams/messages.ts';
import type { ApiKeys } from './ApiKeys.ts';
import type { Authenticator } from './Authenticator.ts';
import type { ClientTokens } from './ClientTokens.ts';
import type { Config } from './config_schema.ts';
import type { ImageReader } from './ImageReader.ts';

/** What the routes are given: one per server. */
export interface ApiContext {
  readonly config: Config;
  /** Absolute path of the built page. */
  readonly webDirectory: string;
  readonly registry: SessionRegistry;
  readonly card: EngineCard;
  readonly programs: readonly string[];
  /** Reads pictures in the size of the served model. */
  readonly images: ImageReader;
  readonly keys: ApiKeys;
  readonly tokens: ClientTokens;
  readonly authenticator: Authenticator;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Logger;
  /** Why the server takes no new sessions, or null. */
  readonly notReady: () => string | null;
}
