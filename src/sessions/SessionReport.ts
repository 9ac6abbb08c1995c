import type { Degraded } from '../protocol/degraded.ts';
import type { StateUpdate } from '../protocol/channel.ts';
import type { SessionView } from '../protocol/rest.ts';
import type { SessionUsage } from '../protocol/session_usage.ts';
import type { SessionWords } from '../streams/session_words.ts';
import type { PromptMemory } from './PromptMemory.ts';
import type { SessionConnections } from './SessionConnections.ts';
import type { SessionOptions } from './session_options.ts';
import type { SessionStatus } from './SessionStatus.ts';
import type { StoryPosition } from './StoryPosition.ts';

/** Positions go out at most this often; changes of state at once. */
const POSITION_INTERVAL_MS = 1_000;

export interface ReportParts {
  readonly words: SessionWords;
  readonly status: SessionStatus;
  readonly position: StoryPosition;
  readonly memory: PromptMemory;
  readonly connections: SessionConnections;
  readonly conditioningVersion: () => number;
  readonly usage: () => SessionUsage;
}

/** How a session looks from outside: to the API, and to its clients whenever that changes. */
export class SessionReport {
  readonly createdAt: string;
  readonly #options: SessionOptions;
  readonly #parts: ReportParts;
  #toldMs = Number.NEGATIVE_INFINITY;
  /** What it goes without; null: nothing. */
  degraded: Degraded | null = null;

  constructor(options: SessionOptions, parts: ReportParts) {
    this.#options = options;
    this.createdAt = options.returning?.from.createdAt ?? new Date().toISOString();
    this.#parts = parts;
  }

  get view(): SessionView {
    const { id, card, program, seed, replay } = this.#options;
    const { words, status, position, memory, connections, conditioningVersion, usage } = this.#parts;
    return {
      id,
      state: status.state,
      model: card.modelId,
      program,
      seed,
      createdAt: this.createdAt,
      epoch: words.epoch,
      conditioningVersion: conditioningVersion(),
      sent90k: position.sent90k,
      presented90k: position.presented90k,
      committed90k: position.committed90k,
      prompt: memory.prompt,
      adapter: memory.adapter,
      connections: connections.present,
      usage: usage(),
      ...(this.degraded === null ? {} : { degraded: this.degraded }),
      ...(replay === undefined ? {} : { replay: { session: replay.sessionId, from90k: replay.from90k, to90k: replay.to90k } }),
      ...(status.reason === null ? {} : { reason: status.reason }),
      ...(status.code === null ? {} : { code: status.code }),
    };
  }

  get update(): StateUpdate {
    const { state, epoch, conditioningVersion, sent90k, presented90k, committed90k, prompt, adapter = null, degraded } = this.view;
    return { type: 'session.updated', state, epoch, conditioningVersion, sent90k, presented90k, committed90k, prompt, adapter, ...(degraded === undefined ? {} : { degraded }) };
  }

  /** Tells every client how things stand. */
  tell(): void {
    this.#toldMs = this.#options.clock.now();
    this.#parts.connections.broadcast('state', this.update);
  }

  /** A position changed: told where nothing was told lately. */
  tellPosition(): void {
    if (this.#options.clock.now() - this.#toldMs >= POSITION_INTERVAL_MS) this.tell();
  }
}
