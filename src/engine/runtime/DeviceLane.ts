import type { Clock, Timer } from '../../observe/clock.ts';
import { BatchWatch } from './BatchWatch.ts';
import type { Device } from './Device.ts';
import type { SessionUnit } from './StepCommitter.ts';
import type { WorkSource } from './WorkSource.ts';

/** What the dispatcher keeps of one device: the watchdog of the batch that is out, and the timer of the turn that is released next. */
export class DeviceLane {
  readonly device: Device<WorkSource>;
  readonly watch: BatchWatch<readonly SessionUnit[]>;
  readonly #clock: Clock;
  readonly #released: (device: Device<WorkSource>) => void;
  #timer: { readonly timer: Timer; readonly atMs: number } | null = null;

  /** @param released a turn's time has come. @param expired a batch isn't back in time. */
  constructor(device: Device<WorkSource>, { clock, unitWatchdogMs, released, expired }: { readonly clock: Clock; readonly unitWatchdogMs: number; readonly released: (device: Device<WorkSource>) => void; readonly expired: (device: Device<WorkSource>, units: readonly SessionUnit[]) => void }) {
    this.device = device;
    this.watch = new BatchWatch(clock, unitWatchdogMs, (units: readonly SessionUnit[]) => expired(device, units));
    this.#clock = clock;
    this.#released = released;
  }

  /** Sees to it that the device is looked at when its next turn is released. A timer that is too early stays: whoever looks then finds nothing and arms it anew. */
  arm(): void {
    const { usable, busy, queue } = this.device;
    const nextMs = usable && !busy ? (queue.nextReleaseMs() ?? Infinity) : Infinity;
    if (nextMs === Infinity || (this.#timer !== null && this.#timer.atMs <= nextMs)) return;
    this.#timer?.timer.cancel();
    const timer = this.#clock.schedule(nextMs, () => {
      this.#timer = null;
      this.#released(this.device);
    });
    this.#timer = { timer, atMs: nextMs };
  }

  close(): void {
    this.#timer?.timer.cancel();
    this.#timer = null;
    this.watch.close();
  }
}
