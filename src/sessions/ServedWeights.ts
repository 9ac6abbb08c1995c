import type { Clock, Timer } from '../observe/clock.ts';
import { SegueError } from '../protocol/errors.ts';
import type { EngineCard, EngineToControl, ReloadedWeights } from '../streams/messages.ts';
import type { EnginePort } from './ports.ts';

/** Checking 30 MB and compiling them beside live sessions takes seconds; more is a fault. */
const WATCHDOG_MS = 120_000;

/** The weights that are served, and their replacement while sessions go on. The card's weights version follows. */
export class ServedWeights {
  readonly #engine: EnginePort;
  readonly #clock: Clock;
  readonly #card: EngineCard;
  readonly #questions = new Map<number, { readonly resolve: (reloaded: ReloadedWeights) => void; readonly reject: (error: SegueError) => void; readonly watchdog: Timer }>();
  #asked = 0;

  constructor({ engine, clock, card }: { readonly engine: EnginePort; readonly clock: Clock; readonly card: EngineCard }) {
    this.#engine = engine;
    this.#clock = clock;
    this.#card = card;
  }

  /** Takes up what lies in the model's directory. Rejects with model_not_found, model_not_usable, conflict, engine_unavailable, timed_out; the older weights serve on then. */
  async reload(modelId: string): Promise<ReloadedWeights> {
    if (modelId !== this.#card.modelId) throw new SegueError('model_not_found', `model ${modelId.slice(0, 64)} is not served here; it has ${this.#card.modelId}`);
    const request = ++this.#asked;
    return new Promise((resolve, reject) => {
      const watchdog = this.#clock.schedule(this.#clock.now() + WATCHDOG_MS, () => {
        this.#questions.delete(request);
        reject(new SegueError('timed_out', 'the engine has not answered; GET /v1/models tells which weights serve'));
      });
      this.#questions.set(request, { resolve, reject, watchdog });
      if (!this.#engine.send({ type: 'model.reload', request })) this.#settle(request)?.reject(new SegueError('engine_unavailable', 'the engine is gone'));
    });
  }

  receive({ request, reloaded, error }: Extract<EngineToControl, { type: 'model.reloaded' }>): void {
    // Also of a question that nobody waits for any more.
    if (reloaded !== undefined) this.#card.weightsVersion = reloaded.weightsVersion;
    const question = this.#settle(request);
    if (reloaded !== undefined) question?.resolve(reloaded);
    else question?.reject(error === undefined ? new SegueError('internal', 'the engine answered something else') : SegueError.from(error));
  }

  #settle(request: number) {
    const question = this.#questions.get(request);
    this.#questions.delete(request);
    question?.watchdog.cancel();
    return question;
  }
}
