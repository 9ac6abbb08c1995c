import { DEFAULT_MEDIA_OPTIONS, type MediaOptions } from '../media/options.ts';
import type { Config } from './config_schema.ts';
import { isLoopback } from './routes/demo_routes.ts';

/** On loopback, media stays on loopback too, unless addresses are named. */
export function mediaOptions({ host, ice, logLevel, media }: Config): MediaOptions {
  const loopback = isLoopback(host);
  const named = ice.addresses.length > 0;
  return {
    ...DEFAULT_MEDIA_OPTIONS,
    logLevel,
    fence: media.fence,
    ice: {
      additionalHostAddresses: named ? ice.addresses : loopback ? ['127.0.0.1'] : [],
      onlyAdditional: named || loopback,
      portRange: [ice.minPort, ice.maxPort],
      servers: ice.servers.map(({ urls, username, credential }) => ({ urls, ...(username === undefined ? {} : { username }), ...(credential === undefined ? {} : { credential }) })),
    },
  };
}
