import type { QueuedTurn } from '../scheduler/ReadyQueue.ts';
import type { Device } from './Device.ts';
import type { EngineOptions } from './engine_options.ts';
import type { WorkSource } from './WorkSource.ts';

/**
 * The baseline that benchmarks compare with: a device that makes whole chunks. Once a session's chunk has begun, nobody else is served
 * until its last frame is there; sessions whose steps were joined into a batch are served together.
 */
export class WholeChunks {
  readonly #order: EngineOptions['chunkOrder'];
  readonly #owners = new Map<Device<WorkSource>, Set<WorkSource>>();
  /** Since when a session waits to be served; when it was served last. */
  readonly #waiting = new WeakMap<WorkSource, number>();
  readonly #served = new WeakMap<WorkSource, number>();
  #turn = 0;

  constructor(order: EngineOptions['chunkOrder']) {
    this.#order = order;
  }

  /** Place in line of a turn that can be taken from `releaseMs` on; undefined: its deadline says. */
  rank(session: WorkSource, releaseMs: number, nowMs: number): number | undefined {
    if (this.#order === 'deadline') return undefined;
    if (this.#order === 'round_robin') return this.#served.get(session) ?? 0;
    const since = this.#waiting.get(session) ?? Math.max(releaseMs, nowMs);
    this.#waiting.set(session, since);
    return since;
  }

  /** The next turn of whoever has the device, or of anybody where nobody has it. */
  take(device: Device<WorkSource>, nowMs: number): QueuedTurn<WorkSource> | null {
    const owners = this.#owners.get(device);
    for (const session of owners ?? []) if (session.closed || session.turns().length === 0 || session.betweenChunks) owners!.delete(session);
    if (owners === undefined || owners.size === 0) return device.queue.take(nowMs);
    let first: QueuedTurn<WorkSource> | null = null;
    for (const session of owners) {
      for (const queued of session.queued) if (!queued.void && queued.releaseMs <= nowMs && (first === null || queued.deadlineMs < first.deadlineMs)) first = queued;
    }
    if (first === null) return null;
    device.queue.withdraw(first);
    return first;
  }

  /** A batch of these sessions was dispatched. */
  begin(device: Device<WorkSource>, sessions: readonly WorkSource[]): void {
    const owners = this.#owners.get(device) ?? new Set();
    for (const session of sessions) {
      owners.add(session);
      this.#waiting.delete(session);
      this.#served.set(session, ++this.#turn);
    }
    this.#owners.set(device, owners);
  }
}
