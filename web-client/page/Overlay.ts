import type { ClientStats, RequestMeasure } from '../sdk/index.ts';
import { create } from './dom.ts';

const REQUESTS_SHOWN = 8;
const UNKNOWN = '–';

/** Measurements, for whoever wants to know: the stream, and what each request took to be seen. */
export class Overlay {
  readonly #root: HTMLElement;
  readonly #toggle: HTMLButtonElement;
  #stats: ClientStats | null = null;
  #measures: readonly RequestMeasure[] = [];

  constructor(root: HTMLElement, toggle: HTMLButtonElement) {
    this.#root = root;
    this.#toggle = toggle;
    toggle.addEventListener('click', () => this.toggle());
  }

  toggle(shown = this.#root.hidden): void {
    this.#root.hidden = !shown;
    this.#toggle.ariaPressed = String(shown);
    if (shown) this.#render();
  }

  showStats(stats: ClientStats): void {
    this.#stats = stats;
    this.#render();
  }

  showMeasures(measures: readonly RequestMeasure[]): void {
    this.#measures = measures;
    this.#render();
  }

  clear(): void {
    this.#stats = null;
    this.#measures = [];
    this.#render();
  }

  #render(): void {
    if (this.#root.hidden) return;
    const stats = this.#stats;
    const rows: readonly (readonly [name: string, value: string])[] = [
      ['frames/s', stats ? stats.framesPerSecond.toFixed(0) : UNKNOWN],
      ['epoch', stats ? String(stats.epoch) : UNKNOWN],
      ['chunk', shown(stats?.chunk)],
      ['step', shown(stats?.step)],
      ['transport', stats?.transport ?? UNKNOWN],
      ['kbit/s', shown(stats?.kilobitsPerSecond)],
      ['round trip', milliseconds(stats?.roundTripMs)],
      ['buffer', milliseconds(stats?.jitterBufferMs)],
      ['steer → seen', milliseconds(stats?.lastActionMs)],
      ['lost', stats ? String(stats.packetsLost) : UNKNOWN],
    ];
    const list = create('dl');
    for (const [name, value] of rows) {
      const cell = create('dd', { textContent: value });
      cell.dataset['testid'] = `stat-${name.replace(/\W+/g, '-')}`;
      list.append(create('dt', { textContent: name }), cell);
    }
    const requests = create('ol');
    requests.dataset['testid'] = 'requests';
    for (const measure of this.#measures.slice(0, REQUESTS_SHOWN)) requests.append(requestRow(measure));
    this.#root.replaceChildren(list, create('h2', { textContent: 'Press → first changed frame painted' }), this.#measures.length > 0 ? requests : create('span', { textContent: 'nothing asked yet' }));
  }
}

function requestRow(measure: RequestMeasure): HTMLLIElement {
  const name = measure.prompt ?? measure.type;
  const how = measure.outcome === 'failed' || measure.outcome === 'superseded' ? measure.outcome : (measure.how ?? '…');
  // What an interrupt changes is that nothing more is painted: its figure is the last frame painted, which comes before the press.
  const ms = measure.type === 'interrupt' ? (measure.lastOldMs === null ? UNKNOWN : measure.lastOldMs <= 0 ? 'at once' : milliseconds(measure.lastOldMs)) : milliseconds(measure.firstChangedMs);
  return create('li', { title: `accepted after ${milliseconds(measure.acceptedMs)}, applied after ${milliseconds(measure.appliedMs)}` }, create('span', { textContent: name }), create('span', { className: 'how', textContent: how }), create('span', { className: 'ms', textContent: ms }));
}

function milliseconds(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : `${value.toFixed(0)} ms`;
}

function shown(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : value.toFixed(0);
}
