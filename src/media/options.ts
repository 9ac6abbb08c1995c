/** What a media thread is started with; plain data, see `media_thread.ts`. */
export interface MediaOptions {
  readonly ice: IceOptions;
  readonly bitrate: BitrateBounds;
  readonly limits: MediaLimits;
  /** `word`: the epoch word fences. `queue`: a server without a fence, the benchmarks' baseline; test mode only. */
  readonly fence: 'word' | 'queue';
  /** pino level of the thread's own log. */
  readonly logLevel: string;
}

export interface IceOptions {
  /** Host addresses to offer besides those of the interfaces, for example `127.0.0.1` or a public address that is forwarded here. */
  readonly additionalHostAddresses: readonly string[];
  /** Offers nothing but `additionalHostAddresses`: local use and tests. */
  readonly onlyAdditional: boolean;
  /** Inclusive UDP ports, or null for any. */
  readonly portRange: readonly [number, number] | null;
  readonly servers: readonly IceServer[];
}

export interface IceServer {
  readonly urls: readonly string[];
  readonly username?: string;
  readonly credential?: string;
}

/** Video, bits per second. */
export interface BitrateBounds {
  readonly min: number;
  readonly start: number;
  readonly max: number;
  /** Opus. */
  readonly audio: number;
}

export interface MediaLimits {
  readonly maxConnectionsPerSession: number;
  /** ICE and DTLS must be up by then. */
  readonly connectTimeoutMs: number;
  /** Largest data-channel message taken, bytes. */
  readonly maxMessageBytes: number;
  /** Messages a second, per connection and channel, with a burst of twice that. */
  readonly controlRate: number;
  readonly inputRate: number;
  /** Largest backlog of a relayed connection, in messages that the control thread has not taken yet. */
  readonly relayBacklog: number;
}

export const DEFAULT_MEDIA_OPTIONS = {
  ice: { additionalHostAddresses: [], onlyAdditional: false, portRange: null, servers: [] },
  // The floor keeps a 224×128 picture readable; the ceiling is where more bits stop being visible in it.
  bitrate: { min: 150_000, start: 800_000, max: 2_500_000, audio: 48_000 },
  limits: {
    maxConnectionsPerSession: 8,
    connectTimeoutMs: 10_000,
    maxMessageBytes: 64 * 1024,
    controlRate: 40,
    inputRate: 120, // 20 states and 10 positions a second, changes at 60 Hz besides
    relayBacklog: 64,
  },
  fence: 'word',
  logLevel: 'info',
} as const satisfies MediaOptions;
