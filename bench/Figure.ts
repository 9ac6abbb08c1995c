import { mkdirSync, rmSync, appendFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { summarise, type Summary } from '../probe/derive.ts';

const OUT = fileURLToPath(new URL('./out/', import.meta.url));
/** Parts that the samples of a run are cut into, in the order in which they were taken: the spread of the ratio is over them. */
const REPEATS = 3;

export interface FigureLine {
  readonly figure: string;
  readonly unit: string;
  readonly ours: number | null;
  readonly baseline: number | null;
  readonly baselineName: string | null;
  /** Median over repeats. Baseline ÷ ours where less is better, ours ÷ baseline where more is; null where one of them is 0 or missing. */
  readonly ratio: number | null;
  readonly min: number | null;
  readonly max: number | null;
  /** Samples of ours. */
  readonly n: number;
}

export type Side = 'ours' | 'baseline';

export interface FigureOptions {
  readonly figure: string;
  readonly unit: string;
  /** What of the samples is the figure. `sum`: they are counts. */
  readonly statistic: Exclude<keyof Summary, 'n'> | 'sum';
  readonly baselineName?: string;
}

/** Collects the samples of one figure, keeps them raw in `bench/out/FIGURE.ndjson`, and prints its line. */
export class Figure {
  readonly #options: FigureOptions;
  readonly #file: string;
  readonly #samples: Record<Side, number[]> = { ours: [], baseline: [] };

  constructor(options: FigureOptions) {
    this.#options = options;
    mkdirSync(OUT, { recursive: true });
    this.#file = `${OUT}${options.figure}.ndjson`;
    rmSync(this.#file, { force: true });
  }

  /** `context`: whatever helps to derive the summary again. A null value is a measurement that failed: kept raw, not counted. */
  add(side: Side, value: number | null, context: Readonly<Record<string, unknown>> = {}): void {
    appendFileSync(this.#file, `${JSON.stringify({ figure: this.#options.figure, side, value, unit: this.#options.unit, ...context })}\n`);
    if (value !== null) this.#samples[side].push(value);
  }

  count(side: Side): number {
    return this.#samples[side].length;
  }

  /** @throws Error without samples of ours: then nothing was measured */
  line(): FigureLine {
    const { figure, unit, baselineName } = this.#options;
    const { ours, baseline } = this.#samples;
    if (ours.length === 0) throw new Error(`${figure}: nothing was measured`);
    const ratios = repeats(ours).flatMap((part, at) => {
      const other = repeats(baseline)[at];
      if (other === undefined) return [];
      const ratio = this.#figureOf(other) / this.#figureOf(part);
      return Number.isFinite(ratio) && ratio > 0 ? [ratio] : [];
    });
    const spread = ratios.length === 0 ? null : summarise(ratios);
    return {
      figure,
      unit,
      ours: round(this.#figureOf(ours)),
      baseline: baseline.length === 0 ? null : round(this.#figureOf(baseline)),
      baselineName: baseline.length === 0 ? null : (baselineName ?? null),
      ratio: spread && round(spread.p50),
      min: spread && round(spread.min),
      max: spread && round(spread.max),
      n: ours.length,
    };
  }

  print(): void {
    console.log(JSON.stringify(this.line()));
  }

  #figureOf(samples: readonly number[]): number {
    const { statistic } = this.#options;
    return statistic === 'sum' ? samples.reduce((sum, value) => sum + value, 0) : summarise(samples)[statistic];
  }
}

function repeats(samples: readonly number[]): number[][] {
  const size = Math.ceil(samples.length / REPEATS);
  return size === 0 ? [] : Array.from({ length: Math.ceil(samples.length / size) }, (_, at) => samples.slice(at * size, (at + 1) * size));
}

function round(value: number): number {
  return Number(value.toPrecision(4));
}
