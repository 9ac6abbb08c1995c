import { ClientError, createReplay, joinSession, type ClientState, type Degraded, type PromptWarning, type SegueClient, type SessionRequest } from '../sdk/index.ts';
import { AmbientGlow } from './AmbientGlow.ts';
import { CameraStart } from './CameraStart.ts';
import { Captions } from './Captions.ts';
import { createDemoSession } from './DemoSession.ts';
import { byId, create } from './dom.ts';
import { DraftTyping } from './DraftTyping.ts';
import { Futures, type FuturesHost } from './Futures.ts';
import { Microphone } from './Microphone.ts';
import { Notices } from './Notices.ts';
import { Overlay } from './Overlay.ts';
import type { PageOptions } from './page_options.ts';
import { PictureStart } from './PictureStart.ts';
import { Poster } from './Poster.ts';
import { ReplayCaptions, type ReplayRange } from './ReplayCaptions.ts';
import { SoundPermission } from './SoundPermission.ts';
import { SpeedControl } from './SpeedControl.ts';
import { Steering } from './Steering.ts';
import { StyleControl } from './StyleControl.ts';
import { Suggestions } from './Suggestions.ts';
import { Toasts } from './Toasts.ts';
import { clock, degradedText, endingOf, sentence } from './wording.ts';

/** What the page shows: a client's state, and what comes before there is a client. */
type RoomState = ClientState | 'idle' | 'waiting';

/** The second part is left out where there is no room for it. */
const STATUS: Readonly<Record<RoomState, readonly [short: string, more?: string]>> = {
  idle: [''],
  waiting: ['Waiting in line'],
  connecting: ['Connecting'],
  live: ['Live'],
  redirecting: ['Imagining…'],
  held: ['Held', ' — type what happens next'],
  holding: ['On hold', ' — let go to drive on'],
  paused: ['Paused'],
  reconnecting: ['Rejoining', ' — the connection was lost'],
  closed: ['Ended'],
};

/** What stops while somebody speaks was stopped by that. */
const STATUS_SPEAKING: Partial<Readonly<Record<RoomState, readonly [short: string, more?: string]>>> = {
  holding: ['Listening'],
  held: ['Interrupted', ' — you spoke'],
};

const REPLAYING = ['Replay'] as const;
const NO_SIGNAL = ['No signal', ' — waiting for the server'] as const;
/** Nothing received for this long: twice what a held picture may take, before the browser itself calls the connection broken (5 s and more). */
const SILENT_MS = 1_900;

const PROPOSAL = 'snowy mountains at night';

declare global {
  interface Window {
    /** The client of the session that the page is in: for consoles and tests. */
    segue?: SegueClient | undefined;
  }
}

/** The demo: one visitor, one session at a time, everything on the page that can be pressed. */
export class Room {
  readonly steering = new Steering((action) => {
    this.#client?.setAction(action);
    this.#speed.show(action.speed);
  });
  readonly overlay = new Overlay(byId('overlay', HTMLElement), byId('overlay-toggle', HTMLButtonElement));
  readonly #options: PageOptions;
  #world = byId('world', HTMLCanvasElement);
  readonly #prompt = byId('prompt', HTMLInputElement);
  readonly #transition = byId('transition', HTMLSelectElement);
  readonly #interrupt = byId('interrupt', HTMLButtonElement);
  readonly #mute = byId('mute', HTMLButtonElement);
  readonly #status = byId('status', HTMLElement);
  readonly #degraded = byId('degraded', HTMLElement);
  readonly #toasts = new Toasts(byId('toasts', HTMLElement));
  readonly #notices = new Notices(this.#toasts);
  readonly #soundPermission = new SoundPermission(this.#toasts);
  readonly #captions = new Captions(byId('plan', HTMLElement), byId('narration', HTMLElement), byId('narration-told', HTMLElement));
  readonly #glow = new AmbientGlow(byId('ambient', HTMLCanvasElement), this.#world);
  readonly #speed = new SpeedControl(byId('speed', HTMLElement), (speed) => this.steering.setSpeed(speed));
  readonly #suggestions = new Suggestions(byId('chips', HTMLElement), (prompt) => this.redirect(prompt));
  readonly #style = new StyleControl((adapterId) => this.setStyle(adapterId));
  readonly #microphone = new Microphone(byId('microphone', HTMLButtonElement), (reason) => void this.#toasts.show('No microphone', { detail: reason }));
  readonly #camera = new CameraStart();
  readonly #picture = new PictureStart(byId('poster', HTMLElement));
  readonly #poster: Poster;
  readonly #futures: Futures;
  readonly #replayed = new ReplayCaptions((text) => void this.#captions.show(text));
  readonly #typing = new DraftTyping(byId('draft', HTMLElement), (draft) => this.#client?.draft(draft, { seamless: this.#transition.value !== 'redirect' }));
  #client: SegueClient | null = null;
  #sound: AudioContext | null = null;
  #joining: AbortController | null = null;
  #state: RoomState = 'idle';
  #silent = false;
  #speaking = false;
  #pressHandled = false;

  constructor(options: PageOptions) {
    this.#options = options;
    this.#poster = new Poster(() => this.#posterPressed(), options.share !== null);
    this.#futures = new Futures(this.#host());
    document.body.dataset['mode'] = options.share === null ? 'drive' : 'replay';
    this.#speed.show(this.steering.speed);
    this.overlay.toggle(options.overlay);
    byId('prompt-form', HTMLFormElement).addEventListener('submit', (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#prompt.addEventListener('input', () => this.#typing.typed(this.#prompt.value));
    // A finger that goes down means it; waiting for it to come up would cost a frame. The click that follows is the same press.
    this.#interrupt.addEventListener('pointerdown', (event) => {
      this.#pressHandled = event.button === 0 && !this.#resumable;
      if (this.#pressHandled) this.interrupt();
    });
    this.#interrupt.addEventListener('click', () => {
      if (!this.#pressHandled) this.interruptOrResume();
      this.#pressHandled = false;
    });
    // A list that keeps the focus would take the world's keys.
    this.#transition.addEventListener('change', () => this.#transition.blur());
    this.#mute.addEventListener('click', () => this.toggleMute());
    byId('leave', HTMLButtonElement).addEventListener('click', () => void this.#client?.close('You left.'));
    window.addEventListener('pagehide', () => void this.#client?.close('The page was closed.'));
  }

  #host(): FuturesHost {
    return {
      baseUrl: new URL('.', document.baseURI).href,
      transport: this.#options.transport,
      toasts: this.#toasts,
      client: () => this.#client,
      canvas: () => this.#world,
      audio: () => this.#sound,
      camera: () => this.#camera.track,
      follow: (client) => this.#follow(client, []),
      take: (client, canvas) => this.#take(client, canvas),
    };
  }

  /** Another future is on the large stage: it is seen, heard, steered and asked. */
  #take(client: SegueClient, canvas: HTMLCanvasElement): void {
    this.#client = client;
    this.#world = canvas;
    window.segue = client;
    this.#glow.of(canvas);
    this.#captions.clear();
    this.#typing.done();
    this.#microphone.follow(client);
    client.setAction({ steer: this.steering.steer, speed: this.steering.speed });
    client.setVolume(this.#mute.ariaPressed === 'true' ? 0 : 1);
    this.overlay.showMeasures(client.measures);
    this.#show(client.state);
  }

  get #replaying(): boolean {
    return this.#options.share !== null;
  }

  get #resumable(): boolean {
    return this.#state === 'held' || this.#state === 'paused';
  }

  get inSession(): boolean {
    return this.#client !== null && !['idle', 'waiting', 'connecting', 'closed'].includes(this.#state);
  }

  redirect(prompt: string): void {
    const client = this.#client;
    if (!client || prompt.trim() === '') return;
    this.#typing.done();
    try {
      this.#ask(client, prompt);
    } catch (error) {
      this.#failed(asClientError(error), null);
      return;
    }
    this.#suggestions.follow(prompt);
    this.overlay.showMeasures(client.measures);
  }

  /** Shows at once in the control, and in the picture as soon as it is made. */
  setStyle(adapterId: string | null): void {
    const client = this.#client;
    if (!client) return;
    this.#style.show(adapterId);
    try {
      client.setAdapter(adapterId === null ? null : { id: adapterId });
    } catch (error) {
      this.#failed(asClientError(error), null);
      return;
    }
    this.overlay.showMeasures(client.measures);
  }

  #ask(client: SegueClient, prompt: string): void {
    switch (this.#transition.value) {
      case 'cut':
        return void client.cut(prompt);
      case 'blend':
        return void client.blend(prompt);
      default:
        return void client.redirect(prompt, { seamless: this.#transition.value === 'seamless' });
    }
  }

  /** While a key is down: stops, and goes on exactly there when it comes up. */
  hold(): void {
    if (this.#state === 'live') this.#client?.hold();
  }

  release(): void {
    if (this.#state === 'holding') this.#client?.release();
  }

  /** Escape: always an interrupt, never its opposite, so that pressing it twice doesn't undo it. */
  interrupt(): void {
    const client = this.#client;
    if (!client || this.#state === 'held') return;
    if (this.#replaying) return void client.pause();
    client.interrupt();
    this.overlay.showMeasures(client.measures);
    // On a phone the keyboard would cover the picture that was just held.
    if (matchMedia('(pointer: fine)').matches) this.#prompt.focus({ preventScroll: true });
  }

  /** The button: interrupts, and offers the way on when it has. */
  interruptOrResume(): void {
    if (this.#resumable) {
      this.#client?.resume();
      // A button that keeps the focus would take the next space for another press, and the world's keys are wanted now.
      this.#interrupt.blur();
    } else this.interrupt();
  }

  toggleMute(): void {
    const muted = this.#mute.ariaPressed !== 'true';
    this.#mute.ariaPressed = String(muted);
    this.#client?.setVolume(muted ? 0 : 1);
  }

  focusPrompt(): void {
    this.#prompt.focus();
  }

  #submit(): void {
    const prompt = this.#prompt.value.trim();
    // An empty field drives on where the world is held, else it sends what it proposes: Enter always does something.
    if (prompt === '' && this.#resumable) this.#client?.resume();
    else this.redirect(prompt === '' ? PROPOSAL : prompt);
    this.#prompt.value = '';
    this.#typing.done();
    // The world's keys are wanted now; "/" comes back here.
    this.#prompt.blur();
  }

  #posterPressed(): void {
    if (this.#joining) {
      this.#joining.abort(new ClientError('closed', 'You left the line.'));
      return;
    }
    // In the press itself: later the browser would not let it start.
    this.#sound ??= new AudioContext({ latencyHint: 'interactive' });
    this.#sound.resume().catch(() => undefined);
    void this.#join(this.#sound);
  }

  async #join(sound: AudioContext): Promise<void> {
    const joining = new AbortController();
    this.#joining = joining;
    this.#toasts.clear();
    this.#captions.clear();
    this.overlay.clear();
    this.#show('connecting');
    this.#poster.connecting();
    const baseUrl = new URL('.', document.baseURI).href;
    const { image } = this.#picture;
    const { track: camera } = this.#camera;
    const start = camera === null ? (image === null ? {} : { image }) : { program: 'drive_transform' };
    try {
      const replay = this.#options.share === null ? null : await createReplay(baseUrl, this.#options.share, joining.signal);
      const session = replay ?? (await createDemoSession(
        baseUrl,
        { ...this.#options.session, ...start },
        (place) => {
          this.#show('waiting');
          this.#poster.waiting(place);
        },
        joining.signal,
      ));
      this.#show('connecting');
      this.#poster.connecting();
      const client = joinSession({ baseUrl, sessionId: session.id, clientToken: session.clientToken, canvas: this.#world, audio: sound, transport: this.#options.transport, ...(camera === null ? {} : { camera }) });
      this.#client = client;
      window.segue = client;
      this.#follow(client, session.warnings ?? []);
      this.#futures.timeline.follow(client, replay);
      if (replay !== null) this.#followReplay(client, replay);
      joining.signal.addEventListener('abort', () => void client.close('You left.'));
    } catch (error) {
      this.#closed(asClientError(error));
    }
  }

  #followReplay(client: SegueClient, range: ReplayRange): void {
    const again = { label: 'Play again', run: () => void client.rewind(range.from90k) };
    client.on('gap', ({ from90k, to90k }) => void this.#toasts.show('Part of this drive was not kept', { detail: `It goes on at ${clock(to90k)}, ${Math.max(1, Math.round((to90k - from90k) / 90_000))} s later.` }));
    this.#replayed.follow(client, range, () => this.#futures.timeline.position90k, () => this.#toasts.show('That was the drive', { action: again, shownMs: Infinity }));
  }

  /** What a client tells is for the page only while it is the one on the large stage. */
  #follow(client: SegueClient, warnings: readonly PromptWarning[]): void {
    const on: SegueClient['on'] = (event, listener) =>
      client.on(event, (...told) => {
        if (this.#client === client) listener(...told);
      });
    this.#notices.follow(client, warnings);
    if (this.#client === client) this.#microphone.follow(client);
    client.on('state', () => this.#futures.side.showState(client));
    client.on('error', (error, request) => this.#client !== client && this.#notices.failed(error, request));
    client.on('closed', (reason, error) => {
      if (!this.#futures.ended(client)) this.#closed(error ?? new ClientError('closed', reason));
    });
    on('ready', (ready) => {
      this.#suggestions.show(ready.vocabulary);
      this.#style.offer(byId('chips', HTMLElement), ready.adapters ?? []);
      this.#style.show(this.#options.session.adapter?.id ?? null);
      if (this.#options.session.prompt) this.#suggestions.follow(this.#options.session.prompt);
      client.setAction({ steer: this.steering.steer, speed: this.steering.speed });
      client.setVolume(this.#mute.ariaPressed === 'true' ? 0 : 1);
    });
    on('state', (state) => {
      // The picture lifts the curtain, not the handshake.
      if (state === 'live' && this.#state === 'connecting') return;
      if (state !== 'closed') this.#show(state);
    });
    on('frame', (frame) => {
      this.#glow.update(frame.paintedAt);
      if (this.#state !== 'connecting') return;
      this.#joining = null;
      this.#poster.lifted();
      this.#soundPermission.want(this.#sound);
      if (client.transport === 'websocket' && this.#options.transport === 'auto') this.#notices.detour();
      this.#show(client.state);
    });
    on('activity', ({ user }) => {
      this.#speaking = user === 'speaking';
      document.body.dataset['voice'] = user;
      if (this.inSession) this.#show(this.#state, this.#silent);
    });
    on('draft', (preview) => this.#typing.show(preview));
    on('text', (text) => {
      const whole = this.#captions.show(text);
      if (whole === null) return;
      if (text.stream === 'plan') {
        this.#suggestions.follow(whole);
        this.#world.ariaLabel = `The generated world: ${whole}`;
      }
    });
    let followed: string | null = null;
    this.#showDegraded(undefined);
    on('session', ({ prompt, adapter = null, degraded }) => {
      this.#showDegraded(degraded);
      this.#style.show(adapter?.id ?? null);
      if (prompt === null || prompt === followed) return;
      followed = prompt;
      this.#suggestions.follow(prompt);
    });
    on('measure', () => this.overlay.showMeasures(client.measures));
    on('stats', (stats) => {
      this.overlay.showStats(stats);
      this.#showSilence(stats.silentMs >= SILENT_MS);
    });
    on('error', (error, request) => this.#failed(error, request));
  }

  /** What this drive goes without, as long as it does. Told again only when it has changed. */
  #showDegraded(degraded: Degraded | undefined): void {
    const text = degraded === undefined ? '' : degradedText(degraded);
    if (this.#degraded.textContent === text) return;
    this.#degraded.textContent = text;
    this.#degraded.title = degraded?.reason ?? '';
  }

  #failed(error: ClientError, request: SessionRequest | null): void {
    if (request === null && this.#state === 'connecting') {
      this.#poster.connecting(error.code === 'webrtc_unavailable' ? 'No direct way through this network; trying another one.' : `${sentence(error.message)} Trying again.`);
      return;
    }
    // While it rejoins, the status says so, and each attempt that fails is no news.
    if (request === null && (this.#state === 'reconnecting' || error.code === 'webrtc_unavailable')) return;
    this.#notices.failed(error, request);
    // What was typed can be put right instead of being typed again.
    if (request !== null && 'prompt' in request && request.prompt !== undefined && error.code === 'prompt_not_understood' && this.#prompt.value === '') this.#prompt.value = request.prompt;
  }

  #closed(error: ClientError): void {
    const wasJoined = this.inSession;
    this.#joining = null;
    this.#client = null;
    this.#microphone.follow(null);
    this.#camera.off();
    this.#replayed.stop();
    this.#speaking = false;
    this.#typing.done();
    window.segue = undefined;
    this.steering.releaseAll();
    this.#soundPermission.want(null);
    this.#toasts.clear();
    this.#show('closed');
    this.#poster.closed(endingOf(error, wasJoined));
  }

  #showSilence(silent: boolean): void {
    if (silent === this.#silent || !this.inSession) return;
    this.#show(this.#state, silent);
  }

  #show(state: RoomState, silent = false): void {
    this.#state = state;
    this.#silent = silent;
    document.body.dataset['state'] = state;
    document.body.toggleAttribute('data-silent', silent);
    const [short, more = ''] = silent && state !== 'reconnecting' ? NO_SIGNAL : ((this.#speaking ? STATUS_SPEAKING[state] : undefined) ?? (this.#replaying && state === 'live' ? REPLAYING : STATUS[state]));
    this.#status.replaceChildren(short, ...(more === '' ? [] : [create('span', { className: 'more', textContent: more })]));
    const label = this.#interrupt.querySelector('span');
    if (label) label.textContent = this.#replaying ? (this.#resumable ? 'Play' : 'Pause') : this.#resumable ? 'Drive on' : 'Interrupt';
    if (this.#client !== null) this.#futures.standing(this.#client, state === 'held' || state === 'paused');
    this.#prompt.placeholder = state === 'held' ? 'what happens next?' : PROPOSAL;
  }
}

function asClientError(error: unknown): ClientError {
  return error instanceof ClientError ? error : new ClientError('network', error instanceof Error ? error.message : String(error), null, error);
}
