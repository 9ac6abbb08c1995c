import assert from 'node:assert/strict';
import type { InlineProgram, RunEvent, RunInputs } from '../../../src/engine/programs/InlineProgram.ts';
import type { RecordOptions } from '../../../src/engine/runtime/BehaviorRecord.ts';
import { slotsOf, type RunEnd } from '../../../src/engine/runtime/InlineRun.ts';
import type { RunHandle } from '../../../src/engine/runtime/InlineRuns.ts';
import { SharedPool } from '../../../src/streams/shared_pool.ts';
import type { Simulation } from '../../interruption/virtual/Simulation.ts';

export interface SimulatedRunOptions {
  readonly seed?: number;
  readonly slots?: number;
  readonly withinMs?: number | null;
  readonly record?: RecordOptions | null;
  /** Keeps what it is given instead of taking it. */
  readonly holds?: boolean;
}

let numRuns = 0;

/** An inline run on a simulation, with somebody who takes what comes and keeps account of it. */
export class SimulatedRun {
  readonly events: RunEvent[] = [];
  readonly ends: RunEnd[] = [];
  readonly handle: RunHandle;
  readonly pools: { readonly video: SharedPool; readonly audio: SharedPool };
  readonly runId = `run-${++numRuns}`;
  holds: boolean;
  readonly #held: RunEvent[] = [];

  constructor(simulation: Simulation, program: InlineProgram, inputs: RunInputs, { seed = 1, slots = 4, withinMs = null, record = null, holds = false }: SimulatedRunOptions = {}) {
    this.holds = holds;
    this.pools = { video: SharedPool.create(8, slots), audio: SharedPool.create(8, slots) };
    const { video, audio } = this.pools;
    this.handle = simulation.core.run({
      runId: this.runId,
      program,
      inputs,
      seed,
      withinMs,
      record,
      channels: { video: video.descriptor, audio: audio.descriptor },
      emit: (event) => {
        assert.equal(this.ends.length, 0, 'nothing comes after the end');
        this.events.push(event);
        if (this.holds) this.#held.push(event);
        else this.#take(event);
      },
      ended: (end) => void this.ends.push(end),
    });
  }

  /** Takes everything that was held, and what comes from now on. */
  takeAll(): void {
    this.holds = false;
    for (const event of this.#held.splice(0)) this.#take(event);
  }

  get text(): string {
    return this.events.map((event) => (event.type === 'text.delta' ? event.text : '')).join('');
  }

  get frames() {
    return this.events.filter((event) => event.type === 'media.chunk');
  }

  /** What came, without where it lay. */
  get content(): unknown[] {
    return this.events.map((event) => ({ ...event, videoSlot: null, audioSlot: null }));
  }

  /** Slots that nobody was given are free. */
  checkEnd(): void {
    assert.equal(this.ends.length, 1, 'ends once');
    this.takeAll();
    assert.equal(this.pools.video.used, 0, 'no picture slot is left');
    assert.equal(this.pools.audio.used, 0, 'no sound slot is left');
  }

  #take(event: RunEvent): void {
    for (const { pool, slot } of slotsOf(event)) assert.ok(this.pools[pool].release(slot), 'a slot that was given is in use');
  }
}
