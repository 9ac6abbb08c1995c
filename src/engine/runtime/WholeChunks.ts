import type { QueuedTurn } from '../scheduler/ReadyQueue.ts';
import type { Device } from './Device.ts';
import type { WorkSource } from './WorkSource.ts';

/**
 * The baseline that benchmarks compare with: a device that makes whole chunks. Once a session's chunk has begun, nobody else is served
 * until its last frame is there; sessions whose steps were joined into a batch are served together.
 */
export class WholeChunks {
  readonly #owners = new Map<Device<WorkSource>, Set<WorkSource>>();

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
    first.void = true;
    return { ...first, void: false };
  }

  /** A batch of these sessions was dispatched. */
  begin(device: Device<WorkSource>, sessions: readonly WorkSource[]): void {
    const owners = this.#owners.get(device) ?? new Set();
    for (const session of sessions) owners.add(session);
    this.#owners.set(device, owners);
  }
}
