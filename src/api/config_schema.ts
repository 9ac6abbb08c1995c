import { Type, type Static, type TSchema } from 'typebox';

const Ms = (description: string, minimum = 0): ReturnType<typeof Type.Integer> => Type.Integer({ minimum, maximum: 86_400_000, description });
const section = <Properties extends Record<string, TSchema>>(properties: Properties) => Type.Object(properties, { additionalProperties: false });
const Port = Type.Integer({ minimum: 0, maximum: 65_535 });

/** The server's configuration, as `segue.config.yaml` holds it. Every key has a default there and an environment variable: `sessions.idleMs` is `SEGUE_SESSIONS_IDLE_MS`. */
export const Config = section({
  host: Type.String({ minLength: 1, description: 'Address to listen on.' }),
  port: Type.Integer({ minimum: 0, maximum: 65_535, description: 'TCP port; 0 takes a free one.' }),
  logLevel: Type.Enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']),
  auth: section({
    apiKeys: Type.Array(Type.String({ minLength: 16 }), { description: 'Keys of back ends, each at least 16 characters. None: one is made at start and printed.' }),
    tokenSecret: Type.String({ description: 'Signs client tokens; at least 32 characters. Empty: one is made and kept with the sessions; where none are kept, a new one at each start, so tokens end with the process.', pattern: '^$|^.{32,}$' }),
    tokenTtlMs: Ms('Life of a client token.', 1_000),
  }),
  cors: section({
    origins: Type.Array(Type.String({ pattern: '^(\\*|https?://[^/\\s]+)$' }), {
      description: "Origins of web pages that may call the API from a browser, for example https://play.example.com; '*' is every page. None: only the server's own page.",
    }),
  }),
  model: section({ directory: Type.String({ minLength: 1, description: 'Model directory, relative to the project.' }) }),
  sessions: section({
    max: Type.Integer({ minimum: 1, maximum: 10_000, description: 'Sessions at once, whatever the engine would take.' }),
    maxWaiting: Type.Integer({ minimum: 0, maximum: 10_000, description: 'Places in the admission queue.' }),
    idleMs: Ms('Without a request or a change of action a session closes after this.', 1_000),
    idleWarningMs: Ms('It says so this long before.'),
    orphanMs: Ms('Without a connection a session is kept this long.'),
    deviceMs: Type.Integer({ minimum: 0, description: 'Device time that a session may use up; 0: no limit.' }),
    wallMs: Type.Integer({ minimum: 0, description: 'Time that a session may be open; 0: no limit.' }),
    sentBytes: Type.Integer({ minimum: 0, description: 'Bytes of media that a session may send; 0: no limit.' }),
  }),
  storage: section({
    directory: Type.Union([Type.String(), Type.Null()], { description: 'Where sessions are kept, relative to the project; null or empty: nowhere, they end with the process.' }),
    resumeMs: Ms('So long after a restart a session of before can be come back to.'),
    snapshotChunks: Type.Integer({ minimum: 8, maximum: 100_000, description: 'A snapshot of each story is made once in so many chunks.' }),
    maxAgeHours: Type.Integer({ minimum: 1, maximum: 87_600, description: 'A session that nothing was written of for so long is deleted.' }),
    sessionMegabytes: Type.Integer({ minimum: 16, maximum: 1_000_000, description: 'Beyond this the oldest of a session goes.' }),
  }),
  ice: section({
    servers: Type.Array(
      section({ urls: Type.Array(Type.String({ minLength: 1 }), { minItems: 1 }), username: Type.Optional(Type.String()), credential: Type.Optional(Type.String()) }),
      { description: 'STUN and TURN servers that clients are given.' },
    ),
    turnUrls: Type.Array(Type.String({ minLength: 1 }), { description: 'TURN servers with short-lived credentials made from turnSecret.' }),
    turnSecret: Type.String(),
    turnTtlMs: Ms('Life of those credentials.', 60_000),
    addresses: Type.Array(Type.String({ minLength: 1 }), { description: 'Addresses that media is offered on. None: loopback alone when host is loopback, else every interface.' }),
    minPort: Port,
    maxPort: Port,
  }),
  demo: section({
    enabled: Type.Enum(['loopback', 'always', 'never'], { description: 'Whether anybody may open sessions from the demo page without a key; loopback: only when host is loopback.' }),
    perMinute: Type.Integer({ minimum: 1, maximum: 10_000, description: 'Demo sessions per address and minute.' }),
  }),
  web: section({ directory: Type.String({ description: 'The built page, relative to the project.' }) }),
  drain: section({ deadlineMs: Ms('After SIGTERM all is over within this.', 100) }),
  engine: section({
    readyMs: Ms('Loading and measuring the model takes at most this.', 1_000),
    policy: Type.Enum(['unit', 'chunk', 'request'], { description: 'When what is asked takes effect: at the next unit. The others are baselines of the benchmarks, in test mode only.' }),
    reducedSteps: Type.Boolean({ description: 'Whether a session that its device can’t serve in time may be made in fewer denoise steps, where the model declares that.' }),
    redirectPreview: Type.Boolean({ description: 'Whether the first chunk that shows a redirect is made in fewer denoise steps, where the model declares that: it is there sooner.' }),
    speculation: Type.Boolean({ description: 'Whether what people type is worked on before they send it, where the device has nothing else to do.' }),
    traces: Type.Enum(['off', 'summary', 'full'], { description: 'How much sessions’ traces tell. summary: decisions, and units counted by kind once a second. full: every unit besides.' }),
    admissionBound: Type.Number({ minimum: 0.05, maximum: 1, description: 'Share of a device that sessions are promised, by the costs measured at load.' }),
  }),
  media: section({ fence: Type.Enum(['word', 'queue'], { description: 'word: the epoch word fences. queue: a server without a fence, the baseline of the benchmarks, in test mode only.' }) }),
  test: section({ enabled: Type.Boolean({ description: 'Test routes and stamped media. Never in production.' }) }),
});
export type Config = Static<typeof Config>;

export const DEFAULT_CONFIG: Config = {
  host: '127.0.0.1',
  port: 8080,
  logLevel: 'info',
  auth: { apiKeys: [], tokenSecret: '', tokenTtlMs: 3_600_000 },
  cors: { origins: [] },
  model: { directory: 'models/drive' },
  sessions: { max: 64, maxWaiting: 64, idleMs: 600_000, idleWarningMs: 60_000, orphanMs: 60_000, deviceMs: 0, wallMs: 0, sentBytes: 0 },
  storage: { directory: 'data', resumeMs: 600_000, snapshotChunks: 60, maxAgeHours: 168, sessionMegabytes: 512 },
  ice: { servers: [], turnUrls: [], turnSecret: '', turnTtlMs: 3_600_000, addresses: [], minPort: 40_000, maxPort: 49_999 },
  demo: { enabled: 'loopback', perMinute: 30 },
  web: { directory: 'web-client/dist' },
  drain: { deadlineMs: 10_000 },
  engine: { readyMs: 120_000, policy: 'unit', speculation: true, traces: 'full', reducedSteps: true, redirectPreview: false, admissionBound: 0.85 },
  media: { fence: 'word' },
  test: { enabled: false },
};

/** Paths whose values are never printed. */
export const SECRET_KEYS: ReadonlySet<string> = new Set(['auth.apiKeys', 'auth.tokenSecret', 'ice.turnSecret', 'ice.servers.credential']);
