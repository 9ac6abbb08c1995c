import type { Clock, Timer } from '../observe/clock.ts';
import type { SessionView } from '../protocol/rest.ts';
import type { KeptHead } from '../streams/storage_messages.ts';

interface Dormant {
  readonly head: KeptHead;
  readonly timer: Timer;
}

export interface DormantSessionsOptions {
  readonly clock: Clock;
  /** How long after it was last written a session can be come back to, ms. */
  readonly resumeMs: number;
  readonly modelId: string;
  /** Its time is over. */
  readonly expired: (sessionId: string) => void;
}

/** Sessions that were live when the process before this one ended: nothing of them is in memory until somebody comes back to one. */
export class DormantSessions {
  readonly #options: DormantSessionsOptions;
  readonly #dormant = new Map<string, Dormant>();

  constructor(options: DormantSessionsOptions) {
    this.#options = options;
  }

  get views(): readonly SessionView[] {
    return [...this.#dormant.values()].map(({ head }) => this.#view(head));
  }

  get size(): number {
    return this.#dormant.size;
  }

  /** Those that had not ended, were made with this model, and whose time isn't over; the others are told as expired. @param nowMs calendar time. */
  take(heads: readonly KeptHead[], nowMs: number): void {
    const { clock, resumeMs, modelId, expired } = this.#options;
    for (const head of heads) {
      if (head.endedAt !== null || head.fingerprint.modelId !== modelId) continue;
      const leftMs = head.touchedMs + resumeMs - nowMs;
      if (leftMs <= 0) expired(head.sessionId);
      else {
        const timer = clock.schedule(clock.now() + leftMs, () => {
          this.#dormant.delete(head.sessionId);
          expired(head.sessionId);
        });
        this.#dormant.set(head.sessionId, { head, timer });
      }
    }
  }

  has(sessionId: string): boolean {
    return this.#dormant.has(sessionId);
  }

  view(sessionId: string): SessionView | null {
    const dormant = this.#dormant.get(sessionId);
    return dormant === undefined ? null : this.#view(dormant.head);
  }

  /** How a session looks that has ended and is only on disk. */
  viewOfEnded(head: KeptHead): SessionView {
    return { ...this.#view(head), state: 'closed', reason: head.reason ?? 'the session is closed' };
  }

  /** It is live again, or gone. */
  forget(sessionId: string): boolean {
    this.#dormant.get(sessionId)?.timer.cancel();
    return this.#dormant.delete(sessionId);
  }

  /** Idempotent. */
  close(): void {
    for (const { timer } of this.#dormant.values()) timer.cancel();
    this.#dormant.clear();
  }

  #view({ sessionId, program, seed, createdAt, committed90k }: KeptHead): SessionView {
    return { id: sessionId, state: 'orphaned', model: this.#options.modelId, program, seed, createdAt, epoch: 0, conditioningVersion: 0, sent90k: committed90k, presented90k: committed90k, committed90k, prompt: null, connections: 0 };
  }
}
