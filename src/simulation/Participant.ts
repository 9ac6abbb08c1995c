import type { Clock } from '../observe/clock.ts';
import type { MediaEvent } from '../streams/media_events.ts';
import type { EngineToControl } from '../streams/messages.ts';
import { PROGRAM, type SessionListener, type SimulatedServer } from './SimulatedServer.ts';
import type { Population } from './scenario.ts';
import { SimulatedViewer, type SentFrame } from './SimulatedViewer.ts';
import type { SimulationTally, Watched } from './SimulationTally.ts';

const RETRY_MS = 2000;
/** What was typed rests so long before Enter, ms. */
const PAUSE_MS = { least: 150, most: 1050 };
const SCENES = 10;

export interface ParticipantOptions {
  readonly id: string;
  readonly population: Population;
  readonly clock: Clock;
  readonly modelId: string;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /** The server with the fewest sessions. */
  readonly server: () => SimulatedServer;
  readonly tally: SimulationTally;
}

/** Somebody who comes, watches, steers, types, interrupts and leaves, as their population does. */
export class Participant implements SessionListener {
  readonly #options: ParticipantOptions;
  readonly #watched: Watched;
  #server: SimulatedServer | null = null;
  #viewer: SimulatedViewer | null = null;
  #version = 0;
  #asked = 0;
  #redirect: { readonly version: number; readonly pressMs: number; readonly kind: 'hard' | 'seamless' | 'drafted' } | null = null;
  #steer: { readonly sequence: number; readonly pressMs: number } | null = null;
  #steering = false;
  #interrupted = false;
  #gone = false;

  constructor(options: ParticipantOptions) {
    this.#options = options;
    this.#watched = options.tally.comes(options.population.tenant);
  }

  /** Comes in; refused, asks again until patience ends. */
  arrive(sinceMs = this.#options.clock.now()): void {
    const { clock, id, population, modelId, tally, random } = this.#options;
    const server = this.#options.server();
    const viewer = new SimulatedViewer({ sessionId: id, clock, engine: server, pictureBytes: 8, soundBytes: 8, keeps: false, onFrame: (frame) => this.#onFrame(frame) });
    let answered = false;
    const answer = (message: EngineToControl): void => {
      if (answered || (message.type !== 'session.opened' && message.type !== 'session.refused')) return;
      answered = true;
      if (message.type === 'session.opened') return this.#opened(server, viewer, sinceMs);
      server.forget(id);
      viewer.words.markClosed();
      const again = clock.now() + RETRY_MS;
      if (again - sinceMs <= (population.patienceSeconds ?? 0) * 1000) clock.schedule(again, () => this.arrive(sinceMs));
      else tally.turnedAway();
    };
    server.listen(id, { onControl: answer, onMedia: (event) => this.onMedia(event) });
    server.receive({ type: 'session.open', sessionId: id, model: modelId, program: PROGRAM, seed: Math.floor(random() * 2 ** 31), prompt: this.#prompt(), image: null, tenant: population.tenant, channels: viewer.channels });
  }

  onControl(message: EngineToControl): void {
    if (message.type === 'request.failed' || (message.type === 'session.fault' && !this.#gone)) this.#options.tally.failed(message.error.message);
  }

  onMedia(event: MediaEvent): void {
    this.#viewer?.onMedia(event);
  }

  /** Leaves; what is still asked for isn't counted. Idempotent. */
  leave(): void {
    if (this.#gone || this.#server === null || this.#viewer === null) return;
    this.#gone = true;
    this.#watched.leaves(this.#options.clock.now());
    this.#viewer.words.markClosed();
    this.#server.receive({ type: 'session.close', sessionId: this.#options.id });
    this.#server.forget(this.#options.id);
  }

  #opened(server: SimulatedServer, viewer: SimulatedViewer, sinceMs: number): void {
    const { clock, population, tally } = this.#options;
    this.#server = server;
    this.#viewer = viewer;
    server.listen(this.#options.id, this);
    tally.admitted(clock.now() - sinceMs);
    const { staysSeconds, redirects, interrupts, steering } = population;
    if (staysSeconds !== undefined) this.#later(staysSeconds, () => this.leave());
    if (redirects !== undefined) this.#again(redirects.everySeconds, () => this.#type(redirects));
    if (interrupts !== undefined) this.#again(interrupts.everySeconds, () => this.#interrupt(interrupts.pausesSeconds));
    if (steering !== undefined) this.#again(steering.everySeconds, () => this.#press());
  }

  #type({ seamless = 0, drafted = 0 }: NonNullable<Population['redirects']>): void {
    if (this.#redirect !== null || this.#interrupted) return;
    const { random, clock } = this.#options;
    const prompt = this.#prompt();
    const isSeamless = random() < seamless;
    if (random() >= drafted) return this.#enter(prompt, isSeamless, isSeamless ? 'seamless' : 'hard');
    this.#viewer!.type(prompt, isSeamless);
    clock.schedule(clock.now() + PAUSE_MS.least + random() * (PAUSE_MS.most - PAUSE_MS.least), () => {
      if (!this.#gone && this.#redirect === null && !this.#interrupted) this.#enter(prompt, isSeamless, isSeamless ? 'seamless' : 'drafted');
    });
  }

  #enter(prompt: string, seamless: boolean, kind: 'hard' | 'seamless' | 'drafted'): void {
    const version = ++this.#version;
    this.#redirect = { version, pressMs: this.#options.clock.now(), kind };
    this.#viewer!.redirect(`q${++this.#asked}`, prompt, seamless, version);
  }

  #interrupt(pausesSeconds: number): void {
    if (this.#interrupted) return;
    this.#interrupted = true;
    // What was asked for and not shown yet is shown after going on; how long that takes is up to whoever pauses.
    this.#redirect = null;
    this.#steer = null;
    const pressMs = this.#options.clock.now();
    this.#viewer!.request(`q${++this.#asked}`, { request: 'interrupt' }, ++this.#version, true);
    this.#later(pausesSeconds, () => {
      this.#watched.pauses(this.#options.clock.now() - pressMs);
      this.#interrupted = false;
      this.#viewer!.request(`q${++this.#asked}`, { request: 'resume' }, this.#version, false);
    });
  }

  #press(): void {
    if (this.#interrupted) return;
    this.#steering = !this.#steering;
    const sequence = this.#viewer!.steer(this.#steering ? (this.#options.random() < 0.5 ? -1 : 1) : 0);
    this.#steer ??= { sequence, pressMs: this.#options.clock.now() };
  }

  #onFrame({ atMs, chunk, lateMs }: SentFrame): void {
    if (this.#gone) return;
    this.#watched.frame(atMs, lateMs);
    if (this.#redirect !== null && chunk.conditioningVersion >= this.#redirect.version) {
      this.#options.tally.redirected(this.#redirect.kind, atMs - this.#redirect.pressMs);
      this.#redirect = null;
    }
    if (this.#steer !== null && chunk.actionSequence >= this.#steer.sequence) {
      this.#options.tally.steered(atMs - this.#steer.pressMs);
      this.#steer = null;
    }
  }

  #prompt(): string {
    return `scene ${Math.floor(this.#options.random() * SCENES)}`;
  }

  #again(meanSeconds: number, run: () => void): void {
    this.#later(meanSeconds, () => {
      run();
      this.#again(meanSeconds, run);
    });
  }

  #later(meanSeconds: number, run: () => void): void {
    const { clock, random } = this.#options;
    clock.schedule(clock.now() - Math.log(1 - random()) * meanSeconds * 1000, () => {
      if (!this.#gone) run();
    });
  }
}
