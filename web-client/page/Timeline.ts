import type { PaintedFrame, SegueClient } from '../sdk/index.ts';
import { create } from './dom.ts';
import { ThumbnailLoader } from './ThumbnailLoader.ts';
import { TimelineCells, type TimelineCell } from './timeline_cells.ts';
import { clock } from './wording.ts';

export interface TimelineActions {
  rewind(media90k: number): void;
  fork(media90k: number): void;
}

/** Frames come twelve times a second; a strip of pictures needn't. */
const UPDATE_MS = 500;
/** Words are asked for once they can have been shown. */
const WORDS_AFTER_MS = 1_200;
/** A frame is on the server's disk a moment after it was seen. */
const SETTLED_90K = 90_000;

/** What is told of the position may be so old. */
const DRIFT_90K = 2 * 90_000;

interface Shown {
  readonly item: HTMLLIElement;
  readonly button: HTMLButtonElement;
  readonly picture: HTMLImageElement;
  readonly words: HTMLElement;
}

/** The story so far, under the picture: a thumbnail every few seconds, words where they took effect, futures that were left behind dimmed. */
export class Timeline {
  readonly #root: HTMLElement;
  readonly #list: HTMLOListElement;
  readonly #actions: TimelineActions;
  readonly #loader = new ThumbnailLoader();
  readonly #stories = new WeakMap<SegueClient, TimelineCells>();
  readonly #shown = new Map<TimelineCell, Shown>();
  readonly #seen = new IntersectionObserver((entries) => this.#scrolledTo(entries), { threshold: 0.1 });
  #client: SegueClient | null = null;
  #position90k = 0;
  #end90k: number | null = null;
  #playing: TimelineCell | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  #wordsTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(root: HTMLElement, list: HTMLOListElement, stage: HTMLElement, actions: TimelineActions) {
    this.#root = root;
    this.#list = list;
    this.#actions = actions;
    list.addEventListener('keydown', (event) => this.#key(event));
    // One of each for all cells: an hour of them holds no more listeners than none.
    list.addEventListener('click', ({ target }) => {
      const cell = this.#cellOf(target);
      if (cell === undefined) return;
      if ((target as Element).closest('.fork-here') !== null) actions.fork(cell.from90k);
      else if ((target as Element).closest('.cell') !== null && !cell.abandoned) actions.rewind(cell.from90k);
    });
    list.addEventListener('dragstart', ({ target, dataTransfer }) => {
      const cell = this.#cellOf(target);
      if (cell !== undefined) dataTransfer?.setData(MOMENT, String(cell.from90k));
    });
    // A thumbnail that is dragged out begins a future of its own.
    stage.addEventListener('dragover', (event) => event.dataTransfer?.types.includes(MOMENT) === true && event.preventDefault());
    stage.addEventListener('drop', (event) => {
      const moment = event.dataTransfer?.getData(MOMENT);
      if (!moment) return;
      event.preventDefault();
      actions.fork(Number(moment));
    });
  }

  /** Media time of what is seen now. */
  get position90k(): number {
    return this.#position90k;
  }

  /** @param range of a replay: all of it can be gone to. */
  follow(client: SegueClient, range: { readonly from90k: number; readonly to90k: number } | null = null): void {
    const known = this.#stories.get(client);
    this.#stop();
    this.#client = client;
    this.#position90k = range?.from90k ?? known?.last?.from90k ?? 0;
    this.#end90k = range?.to90k ?? null;
    if (known === undefined) {
      const cells = new TimelineCells();
      this.#stories.set(client, cells);
      if (range !== null) cells.reach(range.to90k - 1, range.from90k);
      client.on('frame', (frame) => this.#client === client && this.#painted(frame));
      client.on('rewound', ({ media90k, branch }) => this.#rewound(client, cells, media90k, branch));
      client.on('session', ({ presented90k }) => this.#client === client && this.#told(presented90k));
      client.on('applied', () => this.#client === client && this.#wantWords());
    }
    this.#render();
    this.#wantWords();
    this.#timer = setInterval(() => this.#update(), UPDATE_MS);
  }

  /** The session is over. */
  clear(): void {
    this.#stop();
    this.#client = null;
  }

  #stop(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#wordsTimer);
    this.#loader.clear();
    this.#seen.disconnect();
    this.#shown.clear();
    this.#playing = undefined;
    this.#list.replaceChildren();
  }

  get #cells(): TimelineCells | undefined {
    return this.#client === null ? undefined : this.#stories.get(this.#client);
  }

  #painted({ rtp, notice }: PaintedFrame): void {
    if (notice !== null) this.#position90k = notice.media90k + Math.max(0, (rtp - notice.rtp) | 0);
  }

  /** Frames that came late have moved RTP time and not the story: the server knows where it is. */
  #told(presented90k: number): void {
    if (Math.abs(presented90k - this.#position90k) > DRIFT_90K) this.#position90k = presented90k;
  }

  #rewound(client: SegueClient, cells: TimelineCells, media90k: number, branch: number): void {
    if (this.#end90k !== null) return;
    cells.rewind(media90k, branch);
    if (this.#client !== client) return;
    this.#position90k = media90k;
    this.#render();
    this.#wantWords();
  }

  #update(): void {
    const cells = this.#cells;
    if (cells === undefined || document.hidden) return;
    if (this.#end90k === null && cells.reach(this.#position90k)) this.#render();
    const playing = cells.at(this.#position90k);
    if (playing !== this.#playing) {
      if (this.#playing !== undefined) this.#shown.get(this.#playing)?.button.removeAttribute('aria-current');
      this.#playing = playing;
      const shown = playing === undefined ? undefined : this.#shown.get(playing);
      shown?.button.setAttribute('aria-current', 'time');
      // Who looks at what was isn't taken back to now.
      if (shown !== undefined && !this.#root.matches(':hover, :focus-within')) this.#list.scrollTo({ left: shown.item.offsetLeft - this.#list.clientWidth * 0.72 });
      for (const cell of cells.cells) this.#want(cell);
    }
    const shown = playing === undefined ? undefined : this.#shown.get(playing);
    shown?.item.style.setProperty('--at', ((this.#position90k - playing!.from90k) / (playing!.to90k - playing!.from90k)).toFixed(2));
  }

  #render(): void {
    const cells = this.#cells?.cells ?? [];
    for (const cell of cells) {
      const shown = this.#shown.get(cell) ?? this.#create(cell);
      shown.item.classList.toggle('abandoned', cell.abandoned);
      shown.button.ariaDisabled = String(cell.abandoned);
      shown.button.draggable = !cell.abandoned;
      const told = `${clock(cell.from90k)}${cell.words === null ? '' : `: ${cell.words}`}`;
      shown.button.ariaLabel = cell.abandoned ? `${told}, left behind` : `Go back to ${told}`;
      shown.button.title = told;
      shown.words.textContent = cell.words ?? '';
    }
    for (const [cell, { item }] of this.#shown) {
      if (cells.includes(cell)) continue;
      item.remove();
      this.#shown.delete(cell);
    }
  }

  #create(cell: TimelineCell): Shown {
    const picture = create('img', { alt: '', draggable: false, decoding: 'async' });
    const words = create('span', { className: 'words' });
    const button = create('button', { type: 'button', className: 'cell', tabIndex: -1 }, picture, words);
    const fork = create('button', { type: 'button', className: 'fork-here', ariaLabel: `Fork at ${clock(cell.from90k)}`, title: 'Fork here (F)', tabIndex: -1 });
    fork.innerHTML = '<svg viewBox="0 0 24 24" aria-hidden="true"><path d="M6 4v16M6 13c7 0 10-2 10-8M12.5 8.5L16 5l3.5 3.5" /></svg>';
    const item = create('li', {}, button, fork);
    button.dataset['testid'] = 'timeline-cell';
    button.dataset['from'] = String(cell.from90k);
    const shown = { item, button, picture, words };
    this.#shown.set(cell, shown);
    this.#list.append(item);
    this.#list.querySelectorAll<HTMLElement>('.cell[tabindex="0"]').forEach((other) => (other.tabIndex = -1));
    button.tabIndex = 0;
    this.#seen.observe(item);
    return shown;
  }

  #scrolledTo(entries: readonly IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting } of entries) {
      const cell = this.#cellOf(target);
      if (cell === undefined) continue;
      (target as HTMLElement).toggleAttribute('data-visible', isIntersecting);
      if (isIntersecting) this.#want(cell);
    }
  }

  /** The cell whose element this is, or lies in. */
  #cellOf(target: EventTarget | null): TimelineCell | undefined {
    const item = target instanceof Element ? target.closest('li') : null;
    return item === null ? undefined : [...this.#shown].find(([, shown]) => shown.item === item)?.[0];
  }

  /** Its picture, where it can be seen and the server has it. */
  #want(cell: TimelineCell): void {
    const shown = this.#shown.get(cell);
    const story = this.#client?.story;
    if (shown === undefined || story === undefined || !shown.item.hasAttribute('data-visible') || shown.picture.dataset['asked'] !== undefined) return;
    if (this.#end90k === null && !cell.abandoned && cell.from90k + SETTLED_90K > this.#position90k) return;
    shown.picture.dataset['asked'] = '';
    this.#loader.want(story, cell, (url) => (shown.picture.src = url));
  }

  #wantWords(): void {
    clearTimeout(this.#wordsTimer);
    this.#wordsTimer = setTimeout(() => void this.#readWords(), WORDS_AFTER_MS);
  }

  async #readWords(): Promise<void> {
    const client = this.#client;
    const cells = this.#cells;
    if (client === null || cells === undefined) return;
    try {
      const { turns } = await client.story.memory();
      cells.tell(turns.flatMap(({ prompt, plan, presented }) => (presented === null ? [] : [{ from90k: presented.start90k, words: prompt ?? plan }])));
      if (client === this.#client) this.#render();
    } catch {
      // The next answer asks again; pictures say what there is, too.
    }
  }

  /** One stop for the tab key; the arrows go from picture to picture. */
  #key(event: KeyboardEvent): void {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    const buttons = [...this.#list.querySelectorAll<HTMLButtonElement>('.cell')];
    const at = buttons.indexOf(event.target as HTMLButtonElement);
    if (at < 0) return;
    if (step !== undefined) {
      const next = buttons[Math.min(buttons.length - 1, Math.max(0, at + step))]!;
      buttons[at]!.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
      next.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    } else if (event.key.toLowerCase() === 'f' && buttons[at]!.ariaDisabled !== 'true') this.#actions.fork(Number(buttons[at]!.dataset['from']));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

const MOMENT = 'application/x-segue-moment';
