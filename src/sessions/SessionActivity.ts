import type { Clock, Timer } from '../observe/clock.ts';
import { asksForScene, fences, type Activity, type SessionRequest } from '../protocol/channel.ts';
import type { SessionStateName } from '../protocol/rest.ts';

/** Without a word, a request or a key for this long, a person is taken for away; as in LiveKit's agents. */
export const AWAY_MS = 15_000;
/** A key is only seen by looking, and whoever comes back should not stay `away` for long. */
const AWAY_INTERVAL_MS = 1000;

export type UserActivity = Activity['user'];
export type ModelActivity = Activity['session'];

export interface ActivityHost {
  readonly clock: Clock;
  /** Connections that carry media. */
  present(): number;
  state(): SessionStateName;
  interrupted(): boolean;
  /** Sequence of the held action. */
  action(): number;
  /** Each change, once. */
  tell(activity: Activity): void;
}

/** Whose turn it is: what the person does, and what the session does. Derived from what is known anyway; told when it changes. */
export class SessionActivity {
  readonly #host: ActivityHost;
  /** Requests for a scene that haven't shown yet. */
  readonly #scenes = new Set<string>();
  #speaking = false;
  #held = false;
  #shown = false;
  #signMs: number;
  #action = 0;
  #away: Timer | null = null;
  #told: Activity;
  #closed = false;

  constructor(host: ActivityHost) {
    this.#host = host;
    this.#signMs = host.clock.now();
    this.#told = { type: 'activity', user: 'away', session: 'idle' };
  }

  get current(): Activity {
    return this.#told;
  }

  speaking(speaking: boolean): void {
    this.#speaking = speaking;
    this.sign();
  }

  /** Somebody did something. */
  sign(): void {
    this.#signMs = this.#host.clock.now();
    this.refresh();
  }

  accepted(requestId: string, request: SessionRequest): void {
    if (asksForScene(request)) this.#scenes.add(requestId);
    if (request.type === 'hold' || request.type === 'release') this.#held = request.type === 'hold';
    else if (fences(request) || request.type === 'pause' || request.type === 'resume') this.#held = false;
    this.refresh();
  }

  /** A request has its last answer. */
  settled(requestId: string): void {
    this.#scenes.delete(requestId);
    this.refresh();
  }

  /** The first frame has left. */
  shown(): void {
    this.#shown = true;
    this.refresh();
  }

  holdExpired(): void {
    this.#held = false;
    this.refresh();
  }

  /** Something that it is derived from may have changed. */
  refresh(): void {
    if (this.#closed) return;
    const { tell } = this.#host;
    const [user, session] = [this.#user(), this.#session()];
    if (user === this.#told.user && session === this.#told.session) return;
    this.#told = { type: 'activity', user, session };
    tell(this.#told);
  }

  /** Idempotent. */
  close(): void {
    this.#closed = true;
    this.#away?.cancel();
    this.#scenes.clear();
  }

  #user(): UserActivity {
    const { present, clock } = this.#host;
    if (present() === 0) return 'away';
    this.#watch();
    if (this.#speaking) return 'speaking';
    return clock.now() - this.#signMs >= AWAY_MS ? 'away' : 'listening';
  }

  #session(): ModelActivity {
    const { state, interrupted } = this.#host;
    if (state() === 'paused') return 'paused';
    if (state() !== 'active') return 'idle';
    if (!this.#shown || this.#scenes.size > 0) return 'thinking';
    if (interrupted()) return 'interrupted';
    return this.#held ? 'holding' : 'generating';
  }

  #watch(): void {
    if (this.#away !== null) return;
    const { clock, action, present } = this.#host;
    const quietMs = clock.now() - this.#signMs;
    this.#away = clock.schedule(clock.now() + (quietMs >= AWAY_MS ? AWAY_INTERVAL_MS : AWAY_MS - quietMs), () => {
      this.#away = null;
      if (this.#closed || present() === 0) return;
      const sequence = action();
      if (sequence !== this.#action) {
        this.#action = sequence;
        this.#signMs = clock.now();
      }
      this.#watch();
      this.refresh();
    });
  }
}
