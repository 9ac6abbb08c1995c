import type { Engine, InteractiveSession } from '../../src/index.ts';
import { openEngine } from '../../src/index.ts';
import type { TraceEvent } from '../../src/streams/messages.ts';

const MODEL = new URL('../../models/drive', import.meta.url).pathname;

/** An engine of the real model, batch-invariant, that runs and live sessions share. */
export function openLiveEngine(onTrace: (events: readonly TraceEvent[]) => void = () => undefined): Promise<Engine> {
  // Bits are compared: a loaded machine must not change them.
  return openEngine(MODEL, { batchInvariant: true, spare: false, calibrationRuns: 2, engine: { reducedSteps: false }, onTrace });
}

/** Somebody who watches a session to its end, and looks at none of it. */
export class Watcher {
  readonly session: InteractiveSession;
  frames = 0;
  readonly #watching: Promise<void>;

  constructor(session: InteractiveSession) {
    this.session = session;
    this.#watching = this.#watch();
  }

  async close(): Promise<void> {
    await this.session.close();
    await this.#watching;
  }

  async #watch(): Promise<void> {
    for await (const event of this.session) if (event.type === 'frame') this.frames++;
  }
}
