import type { StoryBranch } from '../sdk/messages.ts';

/** A stretch of what was seen: in the story that goes on, or in a future that was left behind. */
export interface TimelineCell {
  readonly id: number;
  readonly from90k: number;
  to90k: number;
  abandoned: boolean;
  /** Of the session's story, as `rewound` events number it. */
  readonly branch: number;
  /** What was asked for in it. */
  words: string | null;
}

/** Between two thumbnails. */
export const CELL_90K = 3 * 90_000;
/** An hour of them; beyond it the oldest go. */
const MAX_CELLS = 1_200;

/** What was seen, in the order in which it was seen, cut into cells. Pure. */
export class TimelineCells {
  cells: TimelineCell[] = [];
  #ids = 0;
  #branch = 0;

  get last(): TimelineCell | undefined {
    return this.cells.at(-1);
  }

  /** As whoever had been there all the time has them. @param branches where the story was gone back, oldest first. */
  static of(branches: readonly Pick<StoryBranch, 'branch' | 'from90k' | 'left90k'>[]): TimelineCells {
    const cells = new TimelineCells();
    for (const { branch, from90k, left90k } of branches) {
      cells.reach(Math.max(0, left90k - 1));
      cells.rewind(from90k, branch);
    }
    return cells;
  }

  /** Of the story that goes on. */
  get branch(): number {
    return this.#branch;
  }

  /** All of it has been seen up to there. Returns whether there are other cells than before. */
  reach(media90k: number, from90k = 0): boolean {
    if (this.last === undefined) this.#add(from90k);
    const { length } = this.cells;
    while (this.last!.to90k <= media90k) this.#add(this.last!.to90k);
    if (this.cells.length > MAX_CELLS) this.cells = this.cells.slice(-MAX_CELLS);
    return this.cells.length !== length || length === 1;
  }

  /** The story goes on from there: what comes after it is left behind. */
  rewind(media90k: number, branch: number): void {
    this.#branch = branch;
    for (const cell of this.cells) {
      if (cell.abandoned || cell.to90k <= media90k) continue;
      if (cell.from90k >= media90k) cell.abandoned = true;
      else cell.to90k = media90k;
    }
    this.#add(media90k);
  }

  /** Words at the moments from which on they were shown. */
  tell(turns: readonly { readonly from90k: number; readonly words: string }[]): void {
    for (const cell of this.cells) if (!cell.abandoned) cell.words = turns.find(({ from90k }) => from90k >= cell.from90k && from90k < cell.to90k)?.words ?? null;
  }

  /** The cell of the story that goes on in which a moment lies. */
  at(media90k: number): TimelineCell | undefined {
    return this.cells.findLast(({ abandoned, from90k, to90k }) => !abandoned && media90k >= from90k && media90k < to90k);
  }

  #add(from90k: number): void {
    this.cells.push({ id: ++this.#ids, from90k, to90k: (Math.floor(from90k / CELL_90K) + 1) * CELL_90K, abandoned: false, branch: this.#branch, words: null });
  }
}
