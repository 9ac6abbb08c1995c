import type { Clock } from '../../observe/clock.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { TraceEvent } from '../../streams/messages.ts';
import type { Takeover } from '../workers/Worker.ts';
import type { Device } from './Device.ts';
import { Repeats } from './Repeats.ts';
import type { WorkSource } from './WorkSource.ts';

export interface DeviceHealthParts {
  readonly clock: Clock;
  readonly devices: readonly Device<WorkSource>[];
  /** All that have steps to take on a device. */
  readonly sourcesOn: (device: Device<WorkSource>) => readonly WorkSource[];
  readonly requeue: (source: WorkSource) => void;
  readonly round: () => void;
  readonly trace: (event: TraceEvent) => void;
}

/** How often a worker that was lost is asked whether it is back. */
const HEALTH_INTERVAL_MS = 250;

/** Which devices are to be used: what becomes of those on one whose worker doesn't answer, goes, or went on with its spare. */
export class DeviceHealth {
  readonly #parts: DeviceHealthParts;
  readonly #repeats: Repeats<'health'>;
  #takeovers = 0;

  constructor(parts: DeviceHealthParts) {
    this.#parts = parts;
    this.#repeats = new Repeats(parts.clock);
    for (const device of parts.devices) device.worker.onTakeover?.((takeover) => this.#takenOver(device, takeover));
  }

  get takeovers(): number {
    return this.#takeovers;
  }

  /** Excluded until it answers again: its sessions wait, because their blocks are there. One that is gone takes its sessions with it. */
  lost(device: Device<WorkSource>, message: string): void {
    if (!device.usable) return;
    device.usable = false;
    const { clock, trace, sourcesOn, requeue } = this.#parts;
    trace({ type: 'trace.scheduler', name: 'worker.lost', atMs: clock.now(), workerId: device.workerId, args: { message } });
    for (const source of sourcesOn(device)) requeue(source);
    this.#repeats.every('health', HEALTH_INTERVAL_MS, () => this.#check());
  }

  /** Idempotent. */
  close(): void {
    this.#repeats.close();
  }

  /** In the timeline of each session that it concerns: all that were on the device went on with the spare. */
  #takenOver(device: Device<WorkSource>, { atMs, tookMs, ...args }: Takeover): void {
    this.#takeovers++;
    const { sourcesOn, trace } = this.#parts;
    for (const { sessionId } of sourcesOn(device)) trace({ type: 'trace.scheduler', name: 'executor.takeover', atMs, durationMs: tookMs, sessionId, workerId: device.workerId, args });
  }

  #check(): void {
    const { clock, devices, sourcesOn, requeue, round, trace } = this.#parts;
    for (const device of devices) {
      if (device.usable) continue;
      const { state } = device.worker.health();
      if (state === 'closed') {
        for (const source of sourcesOn(device)) source.fault(new SegueError('engine_unavailable', `worker ${device.workerId} is gone, and what it held with it`), true);
      }
      if (state !== 'ready') continue;
      device.usable = true;
      trace({ type: 'trace.scheduler', name: 'worker.back', atMs: clock.now(), workerId: device.workerId });
      for (const source of sourcesOn(device)) requeue(source);
    }
    if (devices.every(({ usable }) => usable)) this.#repeats.stop('health');
    round();
  }
}
