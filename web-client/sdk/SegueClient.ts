import { ActionSender } from './ActionSender.ts';
import type { Speed, Steer } from './ActionState.ts';
import type { ClientState, JoinOptions } from './client_events.ts';
import { ClientError } from './ClientError.ts';
import { ClientRequests } from './ClientRequests.ts';
import { Connection } from './Connection.ts';
import { fences } from './fences.ts';
import type { Accepted, Activity, Applied, FrameNotice, Ready, ServerMessage, SessionRequest } from './messages.ts';
import type { PaintedFrame } from './PaintedFrame.ts';
import { PositionReporter } from './PositionReporter.ts';
import { Presenter } from './Presenter.ts';
import { ReconnectPolicy } from './ReconnectPolicy.ts';
import { RequestBook, type ForkHandle, type RequestHandle } from './RequestBook.ts';
import { RequestMeasures, type RequestMeasure } from './RequestMeasures.ts';
import { Signalling } from './Signalling.ts';
import { SessionStory } from './SessionStory.ts';
import { SoundOutput } from './SoundOutput.ts';
import { StatsSampler } from './StatsSampler.ts';
import type { Transport } from './Transport.ts';

/** Copies of a fencing request on the unreliable channel: a lost packet must not cost a retransmission time-out. */
const FENCING_COPIES = 3;
/** The server takes no more. */
const MAX_PROMPT_CHARACTERS = 1_000;
/** How long the server keeps a session without a connection, unless it was created otherwise. */
const DEFAULT_GRACE_MS = 60_000;

/** One person's part in a session. Made by {@link joinSession}. */
export class SegueClient extends ClientRequests {
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

  protected override get flows(): boolean {
    return this.#presenter.presentation !== 'held' && !this.#interrupted;
  }

  protected override ask(prompt: string, make: (id: string, text: string) => SessionRequest): RequestHandle {
    const text = prompt.trim();
    if (this.#closed) throw new ClientError('closed', 'the client is closed');
    const problem = text === '' ? 'a prompt needs words' : text.length > MAX_PROMPT_CHARACTERS ? `a prompt has at most ${MAX_PROMPT_CHARACTERS} characters` : null;
    if (problem !== null) return this.#book.refuse(make(this.#book.nextId(), text), ClientError.from({ code: 'bad_request', message: problem, param: 'prompt', retryable: false }));
    return this.request((id) => make(id, text));
  }

  protected override released(): void {
    this.#presenter.release();
  }

  protected override setHolding(holding: boolean): void {
    this.#holding = holding;
    this.#updateState(null);
  }

  protected override request(make: (id: string) => SessionRequest): RequestHandle {
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
        return this.#noticed(message);
      case 'text.delta':
      case 'text.complete':
        return this.emit('text', message);
      case 'session.updated':
        this.#epoch = Math.max(this.#epoch, message.epoch);
        this.#paused = message.state === 'paused';
        this.#updateState(null);
        return this.emit('session', message);
      case 'activity':
        return this.#active(message);
      case 'request.completed':
        return this.emit('completed', message);
      case 'hold.expired':
        this.setHolding(false);
        return this.emit('holdExpired', message);
      case 'draft.preview':
        if (message.re === this.#draft?.id) this.emit('draft', message);
        return;
      case 'session.rewound':
        return this.emit('rewound', message);
      case 'replay.gap':
        return this.emit('gap', message);
      case 'goaway':
        return this.emit('goaway', message);
      case 'idle':
        return this.emit('idle', message);
      case 'budget':
        return this.emit('budget', message);
      case 'closed':
        return void this.#end(message.reason, message.code === undefined ? null : new ClientError(message.code, message.reason));
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
    if (request.type === 'hold') this.setHolding(false);
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
