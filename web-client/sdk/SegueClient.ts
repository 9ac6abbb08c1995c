import { ActionSender } from './ActionSender.ts';
import type { Speed, Steer } from './ActionState.ts';
import { ClientError } from './ClientError.ts';
import { Connection } from './Connection.ts';
import { fences } from './fences.ts';
import type { Accepted, Activity, Applied, BudgetWarning, Closed, DraftPreview, Forked, FrameNotice, Goaway, HoldExpired, IdleWarning, Ready, ReplayGap, RequestCompleted, ServerMessage, SessionAdapter, SessionRequest, StateUpdate, StoryRewound, TextDelta } from './messages.ts';
import type { PaintedFrame } from './PaintedFrame.ts';
import { PositionReporter } from './PositionReporter.ts';
import { Presenter } from './Presenter.ts';
import { ReconnectPolicy } from './ReconnectPolicy.ts';
import { RequestBook, type ForkHandle, type RequestHandle } from './RequestBook.ts';
import { RequestMeasures, type RequestMeasure } from './RequestMeasures.ts';
import { Signalling } from './Signalling.ts';
import { SessionStory } from './SessionStory.ts';
import { SoundOutput } from './SoundOutput.ts';
import { StatsSampler, type ClientStats } from './StatsSampler.ts';
import type { Transport } from './Transport.ts';
import { TypedEmitter } from './TypedEmitter.ts';

/** Copies of a fencing request on the unreliable channel: a lost packet must not cost a retransmission time-out. */
const FENCING_COPIES = 3;
/** The server takes no more. */
const MAX_PROMPT_CHARACTERS = 1_000;
/** How long the server keeps a session without a connection, unless it was created otherwise. */
const DEFAULT_GRACE_MS = 60_000;

export interface JoinOptions {
  /** Where the server is: `https://host/`, with any path prefix. */
  readonly baseUrl: string;
  readonly sessionId: string;
  readonly clientToken: string;
  /** Painted by the client; its bitmap takes the size of the picture. */
  readonly canvas: HTMLCanvasElement;
  /** `false` for a silent client; an AudioContext made in a user gesture where the browser asks for one. Default: one of its own. */
  readonly audio?: boolean | AudioContext;
  /** `webrtc` never falls back, `websocket` doesn't try WebRTC. Default `auto`: WebRTC, then WebSocket. */
  readonly transport?: 'auto' | 'webrtc' | 'websocket';
  readonly graceMs?: number;
  /** What a session that takes a video in is made of (`drive_transform`). The track stays the caller's. */
  readonly camera?: MediaStreamTrack;
}

/**
 * `connecting` → `live` ⇄ `redirecting` (frozen until the first new frame), `held` (interrupted), `holding` (perhaps interrupted: see
 * {@link SegueClient.hold}), `paused`; `reconnecting` after a lost connection; `closed` at the end.
 */
export type ClientState = 'connecting' | 'live' | 'redirecting' | 'held' | 'holding' | 'paused' | 'reconnecting' | 'closed';

export type ClientEvents = {
  /** The second argument says why, where there is a reason to tell. */
  state: [state: ClientState, reason: string | null];
  ready: [ready: Ready];
  /** A frame was painted. */
  frame: [frame: PaintedFrame];
  text: [text: TextDelta];
  accepted: [answer: Accepted];
  applied: [answer: Applied];
  /** A blend is done: the picture is wholly of the new scene. */
  completed: [notice: RequestCompleted];
  /** Nobody released the hold, and nothing was made of it: the server has released it. */
  holdExpired: [notice: HoldExpired];
  /** A fork of this client's was made. */
  forked: [answer: Forked];
  /** The story went back, by whoever drives: what was presented from there on is no part of it any more. */
  rewound: [notice: StoryRewound];
  /** A replay passes over what of its story is not kept. */
  gap: [gap: ReplayGap];
  /** A measure of a request has become known. */
  measure: [measure: RequestMeasure];
  /** Whose turn it is: who speaks, and what the session does about it. */
  activity: [activity: Activity];
  /** What the server says of the session. */
  session: [update: StateUpdate];
  /** A request failed (`request` tells which), or the client met trouble that it survives. */
  error: [error: ClientError, request: SessionRequest | null];
  /** What the newest draft would come to. */
  draft: [preview: DraftPreview];
  goaway: [notice: Goaway];
  idle: [warning: IdleWarning];
  /** Four fifths of what the session may use up of something are gone. */
  budget: [warning: BudgetWarning];
  stats: [stats: ClientStats];
  closed: [reason: string, error: ClientError | null];
};

/** One person's part in a session. Made by {@link joinSession}. */
export class SegueClient extends TypedEmitter<ClientEvents> {
  readonly sessionId: string;
  /** What it has shown: frames, words, links. */
  readonly story: SessionStory;
  /** What the session offers; rejects if the client closes before it is joined. */
  readonly ready: Promise<Ready>;
  readonly #ready = Promise.withResolvers<Ready>();
  readonly #connection: Connection;
  readonly #presenter: Presenter;
  readonly #sound: SoundOutput | null;
  readonly #book: RequestBook;
  readonly #measures = new RequestMeasures();
  readonly #actions: ActionSender;
  readonly #positions: PositionReporter;
  readonly #stats: StatsSampler;
  #epoch = 0;
  /** The newest draft; null where none is out. */
  #draft: { readonly id: string; readonly prompt: string; readonly seamless: boolean } | null = null;
  #paused = false;
  #holding = false;
  #activity: Activity | null = null;
  /** By a voice, or by somebody else: this page has frozen nothing. */
  #interrupted = false;
  #microphone: MediaStreamTrack | null = null;
  #closed = false;
  #state: ClientState = 'connecting';

  constructor(options: JoinOptions) {
    super();
    this.sessionId = options.sessionId;
    this.story = new SessionStory(options.baseUrl, options.sessionId, options.clientToken);
    this.ready = this.#ready.promise;
    // Also told by `closed`; see RequestBook.add.
    this.ready.catch(() => undefined);
    this.#sound = options.audio === false ? null : new SoundOutput(options.audio === true ? undefined : options.audio);
    this.#presenter = new Presenter(options.canvas, this.#sound, { painted: (frame) => this.#painted(frame), presentation: () => this.#updateState(null) });
    this.#book = new RequestBook(
      {
        accepted: (answer, request) => this.#accepted(answer, request),
        applied: (answer, request) => this.#applied(answer, request),
        forked: (answer) => this.emit('forked', answer),
        failed: (error, request) => this.#failed(error, request),
      },
      randomId(),
    );
    this.#actions = new ActionSender((message) => this.#connection.transport?.sendInput(message));
    this.#positions = new PositionReporter(this.#presenter, (message) => this.#connection.transport?.sendInput(message));
    this.#stats = new StatsSampler((stats) => this.emit('stats', stats));
    // Stays pending until there has been a user gesture; rejects when the context is closed first.
    this.#sound?.resume().catch(() => undefined);
    this.#connection = new Connection({
      connector: { signalling: new Signalling(options.baseUrl, options.sessionId, options.clientToken), transport: options.transport ?? 'auto' },
      presenter: this.#presenter,
      sound: this.#sound,
      camera: options.camera ?? null,
      reconnect: new ReconnectPolicy(options.graceMs ?? DEFAULT_GRACE_MS),
      helloId: () => this.#book.nextId(),
      events: {
        joined: (ready, transport) => this.#joinedSession(ready, transport),
        left: (reason) => this.#leftConnection(reason),
        message: (message) => this.#received(message),
        trouble: (error) => this.emit('error', error, null),
        gaveUp: (reason, error) => void this.#end(reason, error),
      },
    });
    this.#connection.start();
  }

  get state(): ClientState {
    return this.#state;
  }

  get epoch(): number {
    return this.#epoch;
  }

  get transport(): Transport['kind'] | null {
    return this.#connection.transport?.kind ?? null;
  }

  get steer(): Steer {
    return this.#actions.steer;
  }

  get speed(): Speed {
    return this.#actions.speed;
  }

  /** Newest first, the last 32. */
  get measures(): readonly RequestMeasure[] {
    return this.#measures.recent;
  }

  /** What is heard, for meters and recorders; null for a silent client. */
  get soundOutput(): AudioNode | null {
    return this.#sound?.output ?? null;
  }

  /**
   * Changes the world. Unless `seamless`, the picture freezes and the sound stops in this call, until the first new frame.
   * `adapter` comes with it, or (null) goes; left out, it stays as it was last asked for.
   * A prompt without words, or of more than 1,000 characters, is refused: the handle's promises reject with `bad_request`, and nothing freezes.
   * Throws ClientError `closed` or `rate_limited`.
   */
  redirect(prompt: string, { seamless = false, adapter }: { readonly seamless?: boolean; readonly adapter?: SessionAdapter | null } = {}): RequestHandle {
    return this.#ask(prompt, (id, text) => ({ type: 'redirect', id, prompt: text, ...(adapter === undefined ? {} : { adapter }), ...(seamless && this.#flows ? { seamless: true } : {}) }));
  }

  /**
   * The same world with one of the model's adapters (`ready.adapters`), at a scale of 0 to 1.5, default 1; null: without. Nothing freezes unless
   * `seamless` is false: the change shows in the next frames that are made. Words that are still being understood stay asked for.
   * Throws ClientError `closed` or `rate_limited`; an adapter that can't be used is told by the handle, with `adapter_not_usable`.
   */
  setAdapter(adapter: SessionAdapter | null, { seamless = true }: { readonly seamless?: boolean } = {}): RequestHandle {
    return this.#request((id) => ({ type: 'redirect', id, adapter, ...(seamless && this.#flows ? { seamless: true } : {}) }));
  }

  /** As a redirect that freezes, but a new shot: the new world comes at once and whole, and carries over nothing of the picture before. */
  cut(prompt: string): RequestHandle {
    return this.#ask(prompt, (id, text) => ({ type: 'cut', id, prompt: text }));
  }

  /** Goes over into another world by degrees, over so many chunks (2 to 120; 12 where left out). `applied` tells of the first of them, the event `completed` of the last. */
  blend(prompt: string, { chunks }: { readonly chunks?: number } = {}): RequestHandle {
    return this.#ask(prompt, (id, text) => (this.#flows ? { type: 'blend', id, prompt: text, ...(chunks === undefined ? {} : { chunks }) } : { type: 'redirect', id, prompt: text }));
  }

  /**
   * Perhaps an interruption: stops what the server sends, and loses nothing. What is on its way is still seen and heard; then the picture stands, until
   * {@link release} goes on exactly there, or `interrupt`, `redirect` or `cut` makes an interruption of it. The server releases it after 2 s.
   */
  hold(): RequestHandle {
    const handle = this.#request((id) => ({ type: 'hold', id }));
    this.#setHolding(true);
    return handle;
  }

  /** It was no interruption. Without a hold in force it changes nothing. */
  release(): RequestHandle {
    const handle = this.#request((id) => ({ type: 'release', id }));
    this.#setHolding(false);
    return handle;
  }

  /**
   * Sends a microphone, so that speech interrupts: what begins to sound like it holds, half a second of it interrupts, and what was none is released (`activity`, and
   * `voice` of the session). Null: none any more. The track stays the caller's. Rejects with ClientError `conflict` where the session listens to no voice.
   */
  async setMicrophone(track: MediaStreamTrack | null): Promise<void> {
    if (this.#closed && track !== null) throw new ClientError('closed', 'the client is closed');
    this.#microphone = track;
    await this.#connection.transport?.setMicrophone(track);
  }

  /**
   * What is being typed, before it is sent: where there is time for it the server works on it, so that a `redirect` with the same words shows sooner, and the
   * `draft` event tells what it would come to. Call it when typing rests, not at every key; null (or no words) takes it back. Changes nothing by itself.
   */
  draft(prompt: string | null, { seamless = false }: { readonly seamless?: boolean } = {}): void {
    const text = prompt?.trim() ?? '';
    const words = text === '' || text.length > MAX_PROMPT_CHARACTERS ? null : text;
    if (this.#closed || (words === null ? this.#draft === null : this.#draft?.prompt === words && this.#draft.seamless === seamless)) return;
    const id = this.#book.nextId();
    const { isOpen, transport } = this.#connection;
    const sent = isOpen && transport?.sendControl({ type: 'draft', id, prompt: words, ...(seamless ? { seamless: true } : {}) }) === true;
    this.#draft = words === null || !sent ? null : { id, prompt: words, seamless };
  }

  /** Freezes the picture and stops the sound in this call, then tells the server. They stay so until `redirect` or `resume`. */
  interrupt(): RequestHandle {
    return this.#request((id) => ({ type: 'interrupt', id }));
  }

  /**
   * Goes back to a moment of the story, in media time (as `frame` events and `session` updates tell it), and on from there as another future: the picture freezes until
   * the first frame of that. `accepted` tells where it goes at most, `applied` the very frame. `exact`: bit-equal also where it lies so far back that only the clean latents are kept.
   * A moment that isn't kept any more is `not_kept`, and the story goes on from where it was. Throws ClientError `closed` or `rate_limited`.
   */
  rewind(media90k: number, { exact = false }: { readonly exact?: boolean } = {}): RequestHandle {
    return this.#request((id) => ({ type: 'rewind', id, media90k: Math.max(0, Math.floor(media90k)), ...(exact ? { exact } : {}) }));
  }

  /**
   * Another session with the same past, up to a moment of it (where it is left out: what is presented now). This one flows on. `forked` names it and brings
   * a token to join it with. Where all places are taken, the error has a ticket to try again with. Throws ClientError `closed` or `rate_limited`.
   */
  fork({ media90k, ticket }: { readonly media90k?: number; readonly ticket?: string } = {}): ForkHandle {
    if (this.#closed) throw new ClientError('closed', 'the client is closed');
    const id = this.#book.nextId();
    const request: SessionRequest = { type: 'fork', id, ...(media90k === undefined ? {} : { media90k: Math.max(0, Math.floor(media90k)) }), ...(ticket === undefined ? {} : { ticket }) };
    const handle = this.#book.addFork(request);
    this.#send(request);
    return handle;
  }

  pause(): RequestHandle {
    return this.#request((id) => ({ type: 'pause', id }));
  }

  /** Goes on after `pause` or `interrupt`. */
  resume(): RequestHandle {
    const handle = this.#request((id) => ({ type: 'resume', id }));
    this.#presenter.release();
    return handle;
  }

  /** Held state: call it on every change, not repeatedly. Throws TypeError for values outside −1…1 and 0…3. */
  setAction(action: { readonly steer?: Steer; readonly speed?: Speed }): void {
    const sequence = this.#actions.set(action);
    if (sequence !== null) this.#stats.acted(sequence);
  }

  /** Tells the server that somebody is there, after an `idle` warning. */
  keepAlive(): void {
    this.#actions.touch();
  }

  /** 0 to 1. */
  setVolume(volume: number): void {
    this.#sound?.setVolume(volume);
  }

  /** Lets the sound start where the browser waited for a user gesture. Call it in one. */
  async resumeSound(): Promise<void> {
    await this.#sound?.resume();
  }

  /** Leaves: the connection ends, the session is kept for its grace period. Idempotent. */
  close(reason = 'left'): Promise<void> {
    return this.#end(reason, null);
  }

  /** While the picture is frozen nothing flows that a change could join. */
  get #flows(): boolean {
    return this.#presenter.presentation !== 'held' && !this.#interrupted;
  }

  #ask(prompt: string, make: (id: string, text: string) => SessionRequest): RequestHandle {
    const text = prompt.trim();
    if (this.#closed) throw new ClientError('closed', 'the client is closed');
    const problem = text === '' ? 'a prompt needs words' : text.length > MAX_PROMPT_CHARACTERS ? `a prompt has at most ${MAX_PROMPT_CHARACTERS} characters` : null;
    if (problem !== null) return this.#book.refuse(make(this.#book.nextId(), text), ClientError.from({ code: 'bad_request', message: problem, param: 'prompt', retryable: false }));
    return this.#request((id) => make(id, text));
  }

  #setHolding(holding: boolean): void {
    this.#holding = holding;
    this.#updateState(null);
  }

  #request(make: (id: string) => SessionRequest): RequestHandle {
    if (this.#closed) throw new ClientError('closed', 'the client is closed');
    const pressedAt = performance.now();
    const request = make(this.#book.nextId());
    // Whatever words it has, the server's draft ends with them.
    if ('prompt' in request && request.prompt !== undefined) this.#draft = null;
    const handle = this.#book.add(request);
    this.#measures.pressed(request, pressedAt);
    // First the person's own screen and ears, then the server, then everybody who draws what came of it.
    if (fences(request)) Object.assign(request, this.#presenter.freeze(request.id, request.type !== 'interrupt'));
    // As on the server: anything that fences or pauses ends a hold.
    if (fences(request) || request.type === 'pause' || request.type === 'resume') this.#holding = this.#interrupted = false;
    this.#send(request);
    this.#presenter.tell();
    return handle;
  }

  #send(request: SessionRequest): void {
    const { isOpen, transport } = this.#connection;
    if (!isOpen || !transport?.sendControl(request)) return;
    if (fences(request) && (request.type === 'interrupt' || request.type === 'redirect' || request.type === 'cut' || request.type === 'rewind')) transport.sendInput(request, FENCING_COPIES);
    this.#book.sent(request.id);
  }

  #joinedSession(ready: Ready, transport: Transport): void {
    this.#epoch = Math.max(this.#epoch, ready.epoch);
    for (const request of this.#book.open) this.#send(request);
    this.#actions.start();
    this.#positions.start();
    this.#stats.start(transport, () => this.#epoch);
    this.#ready.resolve(ready);
    if (this.#microphone !== null) transport.setMicrophone(this.#microphone).catch((error: unknown) => this.emit('error', error instanceof ClientError ? error : new ClientError('unsupported_browser', String(error)), null));
    this.emit('ready', ready);
    this.#updateState(null);
  }

  #leftConnection(reason: string): void {
    // Before anybody is back, the server has released it.
    this.#holding = this.#interrupted = false;
    this.#draft = null;
    this.#stopSending();
    this.#updateState(reason);
  }

  #received(message: ServerMessage): void {
    if (this.#closed) return;
    switch (message.type) {
      case 'frame':
        this.#noticed(message);
        return;
      case 'text.delta':
      case 'text.complete':
        this.emit('text', message);
        return;
      case 'session.updated':
        this.#epoch = Math.max(this.#epoch, message.epoch);
        this.#paused = message.state === 'paused';
        this.#updateState(null);
        this.emit('session', message);
        return;
      case 'activity':
        return this.#active(message);
      case 'request.completed':
        this.emit('completed', message);
        return;
      case 'hold.expired':
        this.#setHolding(false);
        this.emit('holdExpired', message);
        return;
      case 'draft.preview':
        if (message.re === this.#draft?.id) this.emit('draft', message);
        return;
      case 'session.rewound':
        this.emit('rewound', message);
        return;
      case 'replay.gap':
        this.emit('gap', message);
        return;
      case 'goaway':
        this.emit('goaway', message);
        return;
      case 'idle':
        this.emit('idle', message);
        return;
      case 'budget':
        this.emit('budget', message);
        return;
      case 'closed':
        this.#ended(message);
        return;
      case 'error':
        if (!this.#book.answer(message) && message.re === undefined) this.emit('error', ClientError.from(message.error), null);
        return;
      default:
        this.#book.answer(message);
    }
  }

  /** What somebody else, or a voice, has done to the session shows here as if this page had. */
  #active(activity: Activity): void {
    const before = this.#activity?.session;
    this.#activity = activity;
    if (activity.session === 'holding') this.#holding = true;
    else if (before === 'holding') this.#holding = false;
    this.#interrupted = activity.session === 'interrupted' && this.#presenter.presentation === 'flowing';
    this.#updateState(null);
    this.emit('activity', activity);
  }

  #noticed(notice: FrameNotice): void {
    this.#epoch = Math.max(this.#epoch, notice.epoch);
    // The media thread has fenced for it and says so itself: the picture needn't wait for the answer.
    if (notice.re !== undefined) this.#presenter.accepted(notice.re, notice.epoch);
    this.#presenter.notice(notice);
  }

  #ended(message: Closed): void {
    void this.#end(message.reason, message.code === undefined ? null : new ClientError(message.code, message.reason));
  }

  #accepted(answer: Accepted, request: SessionRequest): void {
    this.#epoch = Math.max(this.#epoch, answer.epoch);
    this.#measures.accepted(answer, performance.now());
    if (fences(request)) this.#presenter.accepted(request.id, answer.epoch);
    this.emit('accepted', answer);
    this.#tellMeasure(request.id);
  }

  #applied(answer: Applied, request: SessionRequest): void {
    this.#measures.applied(answer, performance.now());
    // Whatever asks for another scene ends a pause, too.
    if (request.type !== 'interrupt' && request.type !== 'hold' && request.type !== 'release') this.#paused = request.type === 'pause';
    this.#updateState(null);
    this.emit('applied', answer);
    this.#tellMeasure(request.id);
  }

  #failed(error: ClientError, request: SessionRequest): void {
    this.#measures.failed(request.id, error.code === 'superseded' ? 'superseded' : 'failed');
    if (this.#closed) return;
    if (fences(request)) this.#presenter.failed(request.id);
    if (request.type === 'hold') this.#setHolding(false);
    // A newer request of this person's has taken its place: nothing went wrong.
    if (error.code !== 'superseded') this.emit('error', error, request);
    this.#tellMeasure(request.id);
  }

  #painted(frame: PaintedFrame): void {
    this.#stats.painted(frame);
    for (const measure of this.#measures.painted(frame.notice, frame.paintedAt)) this.emit('measure', measure);
    this.emit('frame', frame);
  }

  #tellMeasure(id: string): void {
    const measure = this.#measures.recent.find((known) => known.id === id);
    if (measure) this.emit('measure', measure);
  }

  #updateState(reason: string | null): void {
    const state = this.#closed ? 'closed' : this.#connection.isOpen ? this.#presentedState() : this.#connection.hasJoined ? 'reconnecting' : 'connecting';
    if (state === this.#state) return;
    this.#state = state;
    this.emit('state', state, reason);
  }

  #presentedState(): ClientState {
    if (this.#presenter.presentation === 'held') return 'held';
    if (this.#presenter.presentation === 'awaiting') return 'redirecting';
    return this.#holding ? 'holding' : this.#interrupted ? 'held' : this.#paused ? 'paused' : 'live';
  }

  #stopSending(): void {
    this.#book.suspend();
    this.#actions.stop();
    this.#positions.stop();
    this.#stats.stop();
  }

  async #end(reason: string, error: ClientError | null): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const closing = new ClientError('closed', reason, null, error ?? undefined);
    this.#book.close(closing);
    this.#ready.reject(error ?? closing);
    this.#stopSending();
    const left = this.#connection.close();
    this.#presenter.close();
    await this.#sound?.close();
    this.#updateState(reason);
    this.emit('closed', reason, error);
    await left;
  }
}

/** Joins a session that a back end has created. The client connects by itself; await `client.ready` or listen to `state`. */
export function joinSession(options: JoinOptions): SegueClient {
  return new SegueClient(options);
}

/** Eight characters. Not `randomUUID`, which pages outside a secure context don't have. */
function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(4)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
