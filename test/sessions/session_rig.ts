import { VirtualClock } from '../../src/observe/virtual_clock.ts';
import { createLogger } from '../../src/observe/log.ts';
import { SessionRegistry, type RegistryOptions, type SessionWish } from '../../src/sessions/SessionRegistry.ts';
import type { Session } from '../../src/sessions/Session.ts';
import { CARD, PROMPTS, ScriptedEngine, ScriptedMedia } from './scripted_links.ts';

export const OFFER = 'v=0\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\n';

/** Sessions on a virtual clock between a scripted engine and a scripted media thread. */
export class SessionRig {
  readonly clock = new VirtualClock();
  readonly engine: ScriptedEngine;
  readonly media = new ScriptedMedia();
  readonly registry: SessionRegistry;

  constructor(options: Partial<RegistryOptions> & { readonly capacity?: number } = {}) {
    const { capacity, ...rest } = options;
    this.engine = new ScriptedEngine(capacity);
    this.registry = new SessionRegistry({
      engine: this.engine,
      media: this.media,
      clock: this.clock,
      log: createLogger({ level: 'silent' }),
      card: CARD,
      prompts: PROMPTS,
      programs: ['drive'],
      limits: { idleMs: 600_000, idleWarningMs: 60_000, orphanMs: 60_000, budget: { deviceMs: Infinity, wallMs: Infinity, sentBytes: Infinity } },
      maxSessions: 16,
      maxWaiting: 4,
      ...rest,
    });
    const crashed = (error: Error): void => {
      throw error;
    };
    this.engine.listen({ message: (message) => this.registry.onEngine(message), crashed });
    this.media.listen({ message: (message) => this.registry.onMedia(message), crashed });
  }

  create(wish: Partial<SessionWish> = {}): Promise<Session> {
    return this.registry.create({ tenant: 'test', ...wish });
  }

  /** A session with one connected driver. */
  async join(wish: Partial<SessionWish> = {}): Promise<{ readonly session: Session; readonly connectionId: string }> {
    const session = await this.create(wish);
    const connectionId = await this.connect(session);
    return { session, connectionId };
  }

  async connect(session: Session, roles: readonly ('drive' | 'speak' | 'watch')[] = ['drive', 'speak', 'watch']): Promise<string> {
    const { id } = await session.connect(OFFER, roles);
    this.media.emit({ type: 'connection.state', sessionId: session.id, connectionId: id, state: 'connected' });
    return id;
  }

  /** Lets what was posted arrive, without time passing. */
  settle(): Promise<void> {
    return this.clock.advanceTo(this.clock.now());
  }

  after(ms: number): Promise<void> {
    return this.clock.advanceTo(this.clock.now() + ms);
  }

  /** Messages on the connection's control channel, by type. */
  types(connectionId: string): unknown[] {
    return this.media.texts(connectionId).map(({ type }) => type);
  }
}
