import type { Clock } from '../../observe/clock.ts';
import { DEGRADE_RUNGS, type Degraded, type DegradeRung } from '../../protocol/degraded.ts';
import type { EngineToControl } from '../../streams/messages.ts';
import type { MediaTime90k } from '../../streams/media_time.ts';
import { DegradeLadder, type LadderStep } from '../scheduler/DegradeLadder.ts';
import type { PresentationTimeline } from '../scheduler/PresentationTimeline.ts';
import type { SessionTrace } from './SessionTrace.ts';

export interface PunctualityParts {
  readonly sessionId: string;
  readonly clock: Clock;
  readonly timeline: PresentationTimeline;
  readonly toControl: (message: EngineToControl) => void;
  readonly trace: SessionTrace;
  /** Nothing is to be made ahead on this device for a while. */
  readonly late: () => void;
  /** Chunks that begin are to be made in fewer denoise steps, or in all again; null where there are no fewer. */
  readonly reduce: ((reduced: boolean) => void) | null;
}

/** Whether a session's pictures are there when they are due, and what it goes without where they aren't. */
export class Punctuality {
  missed = 0;
  readonly #parts: PunctualityParts;
  readonly #rungs: readonly DegradeRung[];
  readonly #ladder: DegradeLadder;

  constructor(parts: PunctualityParts) {
    this.#parts = parts;
    this.#rungs = DEGRADE_RUNGS.filter((rung) => rung !== 'steps' || parts.reduce !== null);
    this.#ladder = new DegradeLadder(this.#rungs.length, parts.clock.now());
  }

  /** A picture is ready. @param remade for the second time, with little time left: how late it is says nothing of the device. */
  ready(start90k: MediaTime90k, remade: boolean): void {
    const { clock, timeline, late } = this.#parts;
    const nowMs = clock.now();
    const dueMs = timeline.presentationMs(start90k);
    if (dueMs === null) return;
    if (nowMs > dueMs) {
      this.missed++;
      late();
    }
    if (remade) return;
    if (nowMs > dueMs) this.#apply(this.#ladder.late(nowMs));
    timeline.ready(dueMs - nowMs);
  }

  /** About once a second. */
  tick(): void {
    this.#apply(this.#ladder.tick(this.#parts.clock.now()));
    if (this.#goesWithout('speculation', this.#ladder.level)) this.#parts.late();
  }

  #apply(step: LadderStep | null): void {
    if (step === null) return;
    const { sessionId, timeline, toControl, trace, reduce } = this.#parts;
    timeline.holdLongest(this.#goesWithout('look_ahead', step.level));
    if (this.#goesWithout('steps', step.level) !== this.#goesWithout('steps', step.from)) reduce?.(this.#goesWithout('steps', step.level));
    const degraded: Degraded | null = step.level === 0 ? null : { level: step.level, rung: this.#rungs[step.level - 1]!, reason: step.late > 0 ? `${step.late} pictures were late within 2 s` : `no picture was late for ${Math.round(this.#ladder.calmMs / 1000)} s` };
    toControl({ type: 'session.degraded', sessionId, degraded });
    trace.tell('session.degraded', { from: step.from, level: step.level, late: step.late });
  }

  #goesWithout(rung: DegradeRung, level: number): boolean {
    const at = this.#rungs.indexOf(rung);
    return at >= 0 && level > at;
  }
}
