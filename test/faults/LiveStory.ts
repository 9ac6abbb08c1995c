import assert from 'node:assert/strict';
import type { SessionRequest } from '../../src/protocol/channel.ts';
import type { CreatedSession } from '../../src/protocol/rest.ts';
import type { ApiClient } from '../e2e/api_client.ts';
import { StreamClient, type ServerMessage } from '../e2e/StreamClient.ts';
import type { TestServer } from '../e2e/server.ts';
import { EventReader, type ReadEvent } from './EventReader.ts';

/** What a busy machine may add to any one step. */
const BUSY_MS = 20_000;
const SETTLE_MS = 6_000;
const PROMPTS = ['desert at day', 'coast at dawn', 'forest at night', 'city at dusk', 'snowy mountains at night'];

type Told = ServerMessage & { readonly at: number };

/** One session over many lives of its server: somebody who is never at rest in it, and all that they were ever told. */
export class LiveStory {
  readonly id: string;
  readonly #token: string;
  readonly #random: () => number;
  /** Highest position that was told as committed. */
  committed90k = 0;
  readonly #events = new Map<number, string>();
  readonly #asked = new Map<string, SessionRequest>();
  readonly #answers = new Map<string, Told>();
  /** Of the life that is over: answered, or not. */
  #last: string[] = [];
  #client: StreamClient | null = null;
  #reader: EventReader | null = null;
  #count = 0;

  private constructor({ id, clientToken }: CreatedSession, random: () => number) {
    this.id = id;
    this.#token = clientToken;
    this.#random = random;
  }

  static async begin(api: ApiClient, seed: number, random: () => number): Promise<LiveStory> {
    return new LiveStory(await api.createSessionInLine({ seed, prompt: 'forest at noon' }), random);
  }

  get answered(): number {
    return this.#answers.size;
  }

  get readEvents(): number {
    return this.#events.size;
  }

  /** Comes (back), with the token that it always had. */
  async join(server: TestServer): Promise<void> {
    this.#client = await this.#enter(server);
    this.#reader = new EventReader(server.url, server.apiKey, this.id, Math.max(0, ...this.#events.keys()));
    // However they had left it.
    this.#client.send({ type: 'resume', id: `j${++this.#count}` });
    await this.#client.untilPicture('a picture', undefined, undefined, BUSY_MS);
  }

  /** A server that measured its costs while the machine was busy may have no place for the second of two until it has seen what they are. */
  async #enter(server: TestServer): Promise<StreamClient> {
    const deadline = performance.now() + BUSY_MS;
    for (;;) {
      try {
        return await StreamClient.join(server.url, this.id, this.#token);
      } catch (error) {
        if (performance.now() > deadline) throw error;
        await new Promise((resolve) => setTimeout(resolve, 500));
      }
    }
  }

  /** Asks, types, holds and presses keys at random for so long. */
  async beRestless(forMs: number, api: ApiClient): Promise<void> {
    const until = performance.now() + forMs;
    while (performance.now() < until) {
      this.#act();
      if (this.#random() < 0.3) this.#report((await api.session(this.id)).committed90k);
      await new Promise((resolve) => setTimeout(resolve, 20 + this.#random() * 180));
    }
  }

  /** The server is dead: takes down what was told until then. */
  async lost(): Promise<void> {
    const { messages } = this.#client!;
    for (const message of messages) {
      if (message.type === 'session.updated') this.#report(message.committed90k);
      if (isLastAnswer(message) && this.#asked.has(message.re)) this.#answers.set(message.re, message);
    }
    await this.#client!.close().catch(() => undefined);
    await this.#reader!.stop();
    this.#remember(this.#reader!.events);
  }

  /** After {@link join} in the next life: nothing of it is another than it was told. */
  async check(server: TestServer, dormant90k: number, where: string): Promise<void> {
    assert.ok(dormant90k >= this.committed90k, `${where}: ${this.committed90k} was told as committed, ${dormant90k} is there`);
    const client = this.#client!;
    const asked = this.#last;
    this.#last = [];
    await Promise.all(
      asked.map(async (id) => {
        const before = this.#answers.get(id);
        const again = (await client.request(this.#asked.get(id)!, SETTLE_MS + BUSY_MS)) as Told;
        if (before !== undefined) assert.deepEqual({ ...again, at: 0 }, { ...before, at: 0 }, `${where}: ${id} has the answer that it had`);
        else this.#answers.set(id, again);
      }),
    );
    const events = await EventReader.all(server.url, server.apiKey, this.id);
    for (const { sequence, type } of events) {
      const known = this.#events.get(sequence);
      assert.ok(known === undefined || known === type, `${where}: event ${sequence} was ${known}, and is ${type}`);
    }
    events.slice(1).forEach(({ sequence }, index) => assert.equal(sequence, events[index]!.sequence + 1, `${where}: event numbers go on`));
    for (const sequence of this.#events.keys()) assert.ok(sequence <= events.at(-1)!.sequence, `${where}: event ${sequence} was told and is gone`);
  }

  #act(): void {
    const client = this.#client!;
    const id = `q${++this.#count}`;
    const prompt = this.#pick(PROMPTS);
    const what = this.#pick(['redirect', 'redirect', 'seamless', 'cut', 'blend', 'interrupt', 'hold', 'release', 'draft', 'draft', 'pause', 'key'] as const);
    switch (what) {
      case 'redirect':
      case 'seamless':
        return this.#ask({ type: 'redirect', id, prompt, ...(what === 'seamless' ? { seamless: true } : {}) });
      case 'cut':
        return this.#ask({ type: what, id, prompt });
      case 'blend':
        return this.#ask({ type: what, id, prompt, chunks: 4 });
      case 'interrupt':
      case 'hold':
      case 'release':
        return this.#ask({ type: what, id });
      case 'pause':
        this.#ask({ type: 'pause', id });
        return this.#ask({ type: 'resume', id: `${id}r` });
      case 'draft':
        return client.send({ type: 'draft', id, prompt });
      case 'key':
        return client.input({ type: 'action', sequence: this.#count, steer: this.#pick([-1, 0, 1]), speed: 2, leftPresses: 0, rightPresses: 0 });
    }
  }

  #ask(request: SessionRequest): void {
    this.#asked.set(request.id, request);
    this.#last.push(request.id);
    this.#client!.send(request);
  }

  #report(committed90k: number): void {
    this.committed90k = Math.max(this.committed90k, committed90k);
  }

  #remember(events: readonly ReadEvent[]): void {
    for (const { sequence, type } of events) this.#events.set(sequence, type);
  }

  #pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.#random() * list.length)]!;
  }
}

function isLastAnswer(message: ServerMessage): message is ServerMessage & { readonly re: string } {
  return 're' in message && message.re !== undefined && (message.type === 'applied' || message.type === 'superseded' || message.type === 'error');
}
