import { setTimeout as delay } from 'node:timers/promises';
import type { SessionView } from '../../src/protocol/rest.ts';
import type { Accepted, Applied } from '../../src/protocol/channel.ts';
import type { Static } from 'typebox';
import type { Probe, OpenOptions, ProbePage } from '../../probe/Probe.ts';
import { painted } from '../../probe/derive.ts';
import type { CapturedPicture, PressSample } from '../../probe/samples.ts';
import { ApiClient } from './api_client.ts';
import type { TestServer } from './server.ts';

/** An answer as the page's own client told it, with the page's time. */
export type ClientEvent = { readonly t: number } & (
  | ({ readonly event: 'accepted' } & Static<typeof Accepted>)
  | ({ readonly event: 'applied' } & Static<typeof Applied>)
  | { readonly event: 'error'; readonly code: string; readonly message: string; readonly re: string | null }
  | { readonly event: 'state'; readonly state: string }
  | { readonly event: 'goaway' | 'closed'; readonly reason: string }
);

/** What is used of the page's `window.segue`. */
interface PageClient {
  readonly sessionId: string;
  readonly epoch: number;
  readonly state: string;
  readonly transport: string | null;
  on(event: string, listener: (...args: unknown[]) => void): void;
}

export interface DriveOptions extends OpenOptions {
  /** Query of the page's URL, without `?`. */
  readonly query?: string;
  /** Path of the page, for a client of one's own (`html`). */
  readonly path?: string;
}

/** A frame notice, as it came over the `state` channel. */
export interface Notice {
  readonly t: number;
  readonly rtp: number;
  readonly epoch: number;
  readonly conditioningVersion: number;
  readonly actionSequence: number;
}

/** A change of the held action, as it was sent. */
export interface SentAction {
  readonly t: number;
  readonly sequence: number;
  readonly steer: number;
}

/** The demo page in a probed browser, handled as a person would: by its buttons, its text box and the keyboard. */
export class DrivePage {
  readonly probe: ProbePage;
  readonly #api: ApiClient;

  private constructor(probe: ProbePage, api: ApiClient) {
    this.probe = probe;
    this.#api = api;
  }

  static async open(probe: Probe, server: TestServer, { query = '', path = '/', ...options }: DriveOptions = {}): Promise<DrivePage> {
    const page = await probe.open(`${server.url}${path}${query === '' ? '' : `?${query}`}`, { viewport: SMALL, ...options, initScript: FOLLOW_CLIENT + FOLLOW_CHANNELS + (options.initScript ?? '') });
    return new DrivePage(page, new ApiClient(server));
  }

  /** Presses Join, waits for the first picture, and until the page is in the session: pictures may come before the control channel is open. Returns the press. */
  async join(timeoutMs = 15_000): Promise<PressSample> {
    await this.pressJoin();
    await this.probe.until('first picture painted', (samples) => painted(samples)[0], timeoutMs);
    await this.probe.page.waitForFunction(IN_SESSION, undefined, { timeout: timeoutMs });
    return this.probe.presses.find(({ what }) => what.startsWith('click:'))!;
  }

  async pressJoin(): Promise<void> {
    await this.probe.page.getByRole('button', { name: /join/i }).click();
  }

  /** Types and sends a prompt; resolves when the server has applied it. */
  async prompt(text: string, timeoutMs = 10_000): Promise<ClientEvent & { event: 'applied' }> {
    const since = await this.typePrompt(text);
    return (await this.event('the prompt applied', (event) => event.event === 'applied' && event.t >= since && ['restart', 'steer', 'continue'].includes(event.how), timeoutMs)) as ClientEvent & { event: 'applied' };
  }

  /** Types and sends a prompt; the page's time just before Enter. */
  async typePrompt(text: string, restMs = 0): Promise<number> {
    const box = this.probe.page.getByRole('textbox');
    await box.fill(text);
    if (restMs > 0) await delay(restMs);
    const since = await this.probe.now();
    await box.press('Enter');
    return since;
  }

  /** Escape; resolves with the press once the server has answered, the epoch that it opened, and the position that it holds. */
  async interrupt(timeoutMs = 10_000): Promise<{ readonly press: PressSample; readonly epoch: number; readonly held90k: number | null }> {
    const since = await this.probe.now();
    await this.probe.page.keyboard.press('Escape');
    const press = await this.press('key:Escape', since);
    const accepted = (await this.event('the interrupt accepted', (event) => event.event === 'accepted' && event.t >= press.t, timeoutMs)) as ClientEvent & { event: 'accepted' };
    return { press, epoch: accepted.epoch, held90k: accepted.held90k ?? null };
  }

  async press(what: string, since: number): Promise<PressSample> {
    return this.probe.until(`press of ${what}`, () => this.probe.presses.find((press) => press.t >= since && press.what === what), 3_000);
  }

  async event(what: string, matches: (event: ClientEvent) => boolean, timeoutMs = 10_000): Promise<ClientEvent> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const events = await this.events();
      const found = events.find(matches);
      if (found !== undefined) return found;
      if (performance.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}; last events: ${JSON.stringify(events.slice(-4))}; page errors: ${this.probe.errors.slice(-3).join(' | ')}`);
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }

  /** The last 500 events of the page's clients. */
  events(): Promise<ClientEvent[]> {
    return this.probe.page.evaluate(() => (globalThis as unknown as { __clientEvents: ClientEvent[] }).__clientEvents);
  }

  /** The last 2,000 frame notices, oldest first. */
  notices(): Promise<Notice[]> {
    return this.probe.page.evaluate(() => (globalThis as unknown as { __notices: Notice[] }).__notices);
  }

  /** The last 2,000 changes of the held action, oldest first. */
  actions(): Promise<SentAction[]> {
    return this.probe.page.evaluate(() => (globalThis as unknown as { __actions: SentAction[] }).__actions);
  }

  async sessionId(): Promise<string> {
    const id = await this.probe.page.evaluate(() => (globalThis as unknown as { segue?: PageClient }).segue?.sessionId);
    if (id === undefined) throw new Error('the page is in no session');
    return id;
  }

  transport(): Promise<string | null> {
    return this.probe.page.evaluate(() => (globalThis as unknown as { segue?: PageClient }).segue?.transport ?? null);
  }

  async session(): Promise<SessionView> {
    return this.#api.session(await this.sessionId());
  }

  /** `count` painted pictures, at least `intervalMs` apart, as RGB. */
  async pictures(count: number, intervalMs: number): Promise<Uint8Array[]> {
    const pictures: Uint8Array[] = [];
    for (let at = 0; at < count; at++) {
      const picture: CapturedPicture | null = await this.probe.grab();
      if (picture !== null) pictures.push(Buffer.from(picture.rgb, 'base64'));
      await new Promise((resolve) => setTimeout(resolve, intervalMs));
    }
    return pictures;
  }

  async leave(): Promise<void> {
    await this.probe.page.getByRole('button', { name: /leave/i }).click();
    await this.event('the client closed', ({ event }) => event === 'closed', 5_000);
  }

  close(): Promise<void> {
    return this.probe.close();
  }
}

const IN_SESSION = `globalThis.segue !== undefined && globalThis.segue.state !== 'connecting'`;

/** Everything is on the page at this size; more would only be painted in software, on cores that the server needs. */
const SMALL = { width: 480, height: 400 };

/** Keeps what the page's client tells: installed as a setter, so that nothing of a client's life is missed. */
const FOLLOW_CLIENT = `(() => {
  const events = (globalThis.__clientEvents = []);
  const add = (entry) => { events.push({ t: performance.now(), ...entry }); if (events.length > 500) events.splice(0, 100); };
  let current;
  Object.defineProperty(globalThis, 'segue', {
    configurable: true,
    get: () => current,
    set: (client) => {
      current = client;
      if (!client) return;
      client.on('accepted', (answer) => add({ ...answer, event: 'accepted' }));
      client.on('applied', (answer) => add({ ...answer, event: 'applied' }));
      client.on('error', (error, request) => add({ event: 'error', code: error.code, message: error.message, re: request?.id ?? null }));
      client.on('state', (state) => add({ event: 'state', state }));
      client.on('goaway', (notice) => add({ event: 'goaway', reason: notice.reason }));
      client.on('closed', (reason) => add({ event: 'closed', reason }));
    },
  });
})();`;

/** Keeps what crosses the data channels about frames and actions, without touching it. */
const FOLLOW_CHANNELS = `(() => {
  const notices = (globalThis.__notices = []);
  const actions = (globalThis.__actions = []);
  const keep = (list, entry) => { list.push({ t: performance.now(), ...entry }); if (list.length > 2000) list.splice(0, 500); };
  const create = RTCPeerConnection.prototype.createDataChannel;
  RTCPeerConnection.prototype.createDataChannel = function (label, ...rest) {
    const channel = create.call(this, label, ...rest);
    if (label === 'state') channel.addEventListener('message', ({ data }) => {
      const { type, rtp, epoch, conditioningVersion, actionSequence } = JSON.parse(data);
      if (type === 'frame') keep(notices, { rtp, epoch, conditioningVersion, actionSequence });
    });
    return channel;
  };
  const send = RTCDataChannel.prototype.send;
  let steer = 0;
  RTCDataChannel.prototype.send = function (data) {
    if (this.label === 'input' && typeof data === 'string') {
      const message = JSON.parse(data);
      if (message.type === 'action' && message.steer !== steer) { steer = message.steer; keep(actions, { sequence: message.sequence, steer }); }
    }
    return send.call(this, data);
  };
})();`;
