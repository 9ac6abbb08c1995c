import type { Accepted, Applied, FrameNotice, SessionRequest } from './messages.ts';

/** What one request cost, in ms from the press; null until known. */
export interface RequestMeasure {
  readonly id: string;
  readonly type: SessionRequest['type'];
  readonly prompt: string | null;
  /** Id of the adapter that it asked for; null: none; absent: it named none. */
  readonly adapter?: string | null;
  readonly seamless: boolean;
  /** `performance.now()` of the press. */
  readonly pressedAt: number;
  readonly acceptedMs: number | null;
  readonly appliedMs: number | null;
  /** To the first changed frame painted. Stays null for what changes no picture: `interrupt`, `hold`, `release`, `pause` and `fork`. */
  readonly firstChangedMs: number | null;
  /** To the last frame of before painted: at most 0 where the request freezes the picture. */
  readonly lastOldMs: number | null;
  readonly how: Applied['how'] | null;
  readonly predictedMs: number | null;
  /** First chunk that shows it, and the denoise step of that chunk from which it counts. */
  readonly chunk: number | null;
  readonly step: number | null;
  readonly outcome: 'open' | 'applied' | 'superseded' | 'failed';
}

interface Painted {
  readonly at: number;
  readonly epoch: number;
  readonly conditioningVersion: number;
}

interface Entry {
  measure: RequestMeasure;
  epoch: number | null;
  conditioningVersion: number | null;
}

/** The others' change is that nothing new is painted. */
const CHANGES_PICTURE: ReadonlySet<SessionRequest['type']> = new Set(['redirect', 'cut', 'blend', 'rewind', 'resume']);
const KEPT = 32;
/** Paints that began a new epoch or conditioning version; looked up when an answer comes after its frame. */
const KEPT_CHANGES = 64;

/** Press → accepted, applied, first changed and last old frame painted, for the last {@link KEPT} requests. Pure: times are handed in. */
export class RequestMeasures {
  readonly #entries: Entry[] = [];
  #changes: Painted[] = [];
  #lastPaintedAt: number | null = null;

  /** Newest first. */
  get recent(): readonly RequestMeasure[] {
    return this.#entries.map((entry) => entry.measure).reverse();
  }

  pressed(request: SessionRequest, at: number): void {
    const measure: RequestMeasure = {
      id: request.id,
      type: request.type,
      prompt: 'prompt' in request ? request.prompt : null,
      ...('adapter' in request && request.adapter !== undefined ? { adapter: request.adapter?.id ?? null } : {}),
      seamless: request.type === 'redirect' && request.seamless === true,
      pressedAt: at,
      acceptedMs: null,
      appliedMs: null,
      firstChangedMs: null,
      lastOldMs: this.#lastPaintedAt === null ? null : this.#lastPaintedAt - at,
      how: null,
      predictedMs: null,
      chunk: null,
      step: null,
      outcome: 'open',
    };
    this.#entries.push({ measure, epoch: null, conditioningVersion: null });
    if (this.#entries.length > KEPT) this.#entries.shift();
  }

  accepted(answer: Accepted, at: number): void {
    const entry = this.#find(answer.re);
    if (!entry) return;
    entry.epoch = answer.epoch;
    entry.conditioningVersion = answer.conditioningVersion;
    this.#update(entry, { acceptedMs: at - entry.measure.pressedAt });
    for (const painted of this.#changes) this.#match(entry, painted);
  }

  applied(answer: Applied, at: number): void {
    const entry = this.#find(answer.re);
    if (entry) this.#update(entry, { appliedMs: at - entry.measure.pressedAt, how: answer.how, predictedMs: answer.predictedMs, chunk: answer.chunk, step: answer.step, outcome: 'applied' });
  }

  failed(id: string, outcome: 'superseded' | 'failed'): void {
    const entry = this.#find(id);
    if (entry) this.#update(entry, { outcome });
  }

  /** A frame was painted at `at`; `notice` is what is known of it. Returns the requests whose first changed frame this is. */
  painted(notice: FrameNotice | null, at: number): readonly RequestMeasure[] {
    this.#lastPaintedAt = Math.max(at, this.#lastPaintedAt ?? at);
    if (notice === null) return [];
    const painted: Painted = { at, epoch: notice.epoch, conditioningVersion: notice.conditioningVersion };
    const last = this.#changes.at(-1);
    if (last?.epoch !== painted.epoch || last.conditioningVersion !== painted.conditioningVersion) {
      this.#changes.push(painted);
      if (this.#changes.length > KEPT_CHANGES) this.#changes = this.#changes.slice(-KEPT_CHANGES);
    }
    return this.#entries.filter((entry) => this.#match(entry, painted)).map((entry) => entry.measure);
  }

  /** Returns whether this paint is the entry's first changed frame. */
  #match(entry: Entry, painted: Painted): boolean {
    const { measure } = entry;
    if (measure.firstChangedMs !== null || !CHANGES_PICTURE.has(measure.type) || measure.outcome === 'failed' || measure.outcome === 'superseded' || painted.at < measure.pressedAt) return false;
    const changed = entry.epoch !== null && entry.conditioningVersion !== null && painted.epoch >= entry.epoch && painted.conditioningVersion >= entry.conditioningVersion;
    const ms = painted.at - measure.pressedAt;
    this.#update(entry, changed ? { firstChangedMs: ms } : { lastOldMs: ms });
    return changed;
  }

  #find(id: string): Entry | undefined {
    return this.#entries.find((entry) => entry.measure.id === id);
  }

  #update(entry: Entry, change: Partial<RequestMeasure>): void {
    entry.measure = { ...entry.measure, ...change };
  }
}
