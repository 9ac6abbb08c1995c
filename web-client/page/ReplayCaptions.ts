import type { MemoryView, SegueClient, TextDelta } from '../sdk/index.ts';

export interface ReplayRange {
  readonly from90k: number;
  readonly to90k: number;
}

const LOOK_MS = 400;
/** A frame and what a clock may be off. */
const END_90K = 15_000;

/** The words of a replay: those of the turn that is seen, as they were told. */
export class ReplayCaptions {
  readonly #show: (text: TextDelta) => void;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(show: (text: TextDelta) => void) {
    this.#show = show;
  }

  /** @param ended all of it was seen; told once for each time that it comes to its end. */
  follow(client: SegueClient, { to90k }: ReplayRange, position90k: () => number, ended: () => void): void {
    let turns: MemoryView['turns'] = [];
    let told: MemoryView['turns'][number] | null = null;
    let over = false;
    const read = async (): Promise<void> => {
      turns = (await client.story.memory()).turns;
    };
    void read().catch(() => setTimeout(() => void read().catch(() => undefined), 2_000));
    this.#timer = setInterval(() => {
      const at = position90k();
      const turn = turns.findLast(({ presented }) => presented !== null && presented.start90k <= at) ?? null;
      if (turn !== null && turn !== told) {
        told = turn;
        const re = turn.requestId ?? undefined;
        this.#show({ type: 'text.complete', stream: 'plan', text: turn.plan, ...(re === undefined ? {} : { re }) });
        this.#show({ type: 'text.complete', stream: 'narration', text: turn.narration === '' ? (turn.prompt ?? '') : turn.narration, ...(re === undefined ? {} : { re }) });
      }
      const isOver = at >= to90k - END_90K;
      if (isOver && !over) ended();
      over = isOver;
    }, LOOK_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
