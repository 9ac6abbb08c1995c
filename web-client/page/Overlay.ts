import type { ChangePoint, ClientStats, RequestMeasure } from '../sdk/index.ts';
import { create } from './dom.ts';

const REQUESTS_SHOWN = 8;
const UNKNOWN = '–';

interface Row {
  readonly name: string;
  readonly value: string;
  /** `wide` takes a line of its own; `extra` is left out where there is little room. */
  readonly kind?: 'wide' | 'extra';
}

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

  toggle(shown = this.#root.hidden !== false): void {
    this.#root.hidden = !shown;
    this.#toggle.ariaPressed = String(shown);
    // A small window makes room for it.
    document.body.toggleAttribute('data-measuring', shown);
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
    const list = create('dl');
    for (const { name, value, kind } of rowsOf(this.#stats)) {
      const cell = create('dd', { className: kind ?? '', textContent: value });
      cell.dataset['testid'] = `stat-${name.replace(/\W+/g, '-')}`;
      list.append(create('dt', { className: kind ?? '', textContent: name }), cell);
    }
    const requests = create('ol');
    requests.dataset['testid'] = 'requests';
    for (const measure of this.#measures.slice(0, REQUESTS_SHOWN)) requests.append(requestRow(measure));
    this.#root.replaceChildren(list, create('h2', { textContent: 'Press → first changed frame painted' }), this.#measures.length > 0 ? requests : create('span', { className: 'nothing', textContent: 'nothing asked yet' }));
  }
}

function rowsOf(stats: ClientStats | null): readonly Row[] {
  return [
    { name: 'frames/s', value: stats ? stats.framesPerSecond.toFixed(0) : UNKNOWN },
    { name: 'epoch', value: stats ? String(stats.epoch) : UNKNOWN },
    { name: 'chunk', value: whole(stats?.chunk) },
    { name: 'steer → seen', value: milliseconds(stats?.lastActionMs) },
    { name: 'round trip', value: milliseconds(stats?.roundTripMs) },
    { name: 'buffer', value: milliseconds(stats?.jitterBufferMs), kind: 'extra' },
    { name: 'kbit/s', value: whole(stats?.kilobitsPerSecond), kind: 'extra' },
    { name: 'lost', value: stats ? String(stats.packetsLost) : UNKNOWN, kind: 'extra' },
    { name: 'transport', value: stats ? TRANSPORTS[stats.transport] : UNKNOWN, kind: 'extra' },
    { name: 'last change', value: stats?.lastChange ? placeOf(stats.lastChange) : UNKNOWN, kind: 'wide' },
  ];
}

const TRANSPORTS: Readonly<Record<ClientStats['transport'], string>> = { webrtc: 'WebRTC', websocket: 'WebSocket' };

/** A change that comes after a chunk's first denoise step is a change inside it: what was half made is kept. */
function placeOf({ chunk, step }: ChangePoint): string {
  return step > 0 ? `chunk ${chunk}, from step ${step}` : `chunk ${chunk}, from its start`;
}

function requestRow(measure: RequestMeasure): HTMLLIElement {
  const { type, outcome, lastOldMs, chunk, step, predictedMs } = measure;
  // What an interrupt changes is that nothing more is painted: its figure is the last frame painted, which comes before the press.
  const stopped = lastOldMs === null ? UNKNOWN : lastOldMs <= 0 ? 'at once' : milliseconds(lastOldMs);
  const details = [outcome === 'failed' || outcome === 'superseded' ? outcome : (measure.how ?? 'asked')];
  const showsScene = type === 'redirect' || type === 'cut' || type === 'blend';
  if (showsScene && chunk !== null && step !== null) details.push(step > 0 ? `chunk ${chunk}, step ${step}` : `chunk ${chunk}`);
  if (showsScene && predictedMs !== null) details.push(`predicted ${milliseconds(predictedMs)}`);
  return create(
    'li',
    { title: `accepted after ${milliseconds(measure.acceptedMs)}, applied after ${milliseconds(measure.appliedMs)}` },
    create('span', { className: 'asked', textContent: measure.prompt ?? (measure.adapter === undefined ? type : (measure.adapter ?? 'no style')) }),
    create('span', { className: 'ms', textContent: type === 'interrupt' ? stopped : milliseconds(measure.firstChangedMs) }),
    create('span', { className: 'how', textContent: details.join(' · ') }),
  );
}

function milliseconds(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : `${value.toFixed(0)} ms`;
}

function whole(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : value.toFixed(0);
}
