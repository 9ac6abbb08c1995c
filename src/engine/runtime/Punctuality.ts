import type { Clock } from '../../observe/clock.ts';
import { DEGRADE_RUNGS, type Degraded } from '../../protocol/degraded.ts';
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
}

/** Rungs of the ladder by what they do. */
const LEVEL = { speculation: 1, lookAhead: 2 } as const;

/** Whether a session's pictures are there when they are due, and what it goes without where they aren't. */
export class Punctuality {
  missed = 0;
  readonly #parts: PunctualityParts;
  readonly #ladder: DegradeLadder;

  constructor(parts: PunctualityParts) {
    this.#parts = parts;
    this.#ladder = new DegradeLadder(DEGRADE_RUNGS.length, parts.clock.now());
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
    if (this.#ladder.level >= LEVEL.speculation) this.#parts.late();
  }

  #apply(step: LadderStep | null): void {
    if (step === null) return;
    const { sessionId, timeline, toControl, trace } = this.#parts;
    timeline.holdLongest(step.level >= LEVEL.lookAhead);
    const degraded: Degraded | null = step.level === 0 ? null : { level: step.level, rung: DEGRADE_RUNGS[step.level - 1]!, reason: step.late > 0 ? `${step.late} pictures were late within 2 s` : `no picture was late for ${Math.round(this.#ladder.calmMs / 1000)} s` };
    toControl({ type: 'session.degraded', sessionId, degraded });
    trace.tell('session.degraded', { from: step.from, level: step.level, late: step.late });
  }
}
