export interface ReadEvent {
  readonly type: string;
  readonly sequence: number;
  readonly [field: string]: unknown;
}

/** Reads a session's server-sent events as a back end does, from behind the last one that it has, until it is told to stop or the server is gone. */
export class EventReader {
  readonly events: ReadEvent[] = [];
  readonly #abort = new AbortController();
  readonly #done: Promise<void>;

  constructor(url: string, apiKey: string, sessionId: string, since: number) {
    this.#done = this.#read(url, apiKey, sessionId, since).catch(() => undefined); // aborted, or the server was killed
  }

  get last(): number {
    return this.events.at(-1)?.sequence ?? 0;
  }

  /** All that are still told of a session, up to now. */
  static async all(url: string, apiKey: string, sessionId: string): Promise<readonly ReadEvent[]> {
    const reader = new EventReader(url, apiKey, sessionId, 0);
    for (let before = -1; before !== reader.last || reader.last === 0; ) {
      before = reader.last;
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    await reader.stop();
    return reader.events;
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#done;
  }

  /** One without a number tells of events that are not there any more. */
  #take(event: ReadEvent): void {
    if (event.sequence !== undefined) this.events.push(event);
  }

  async #read(url: string, apiKey: string, sessionId: string, since: number): Promise<void> {
    const response = await fetch(`${url}/v1/sessions/${sessionId}/events`, { headers: { authorization: `Bearer ${apiKey}`, 'last-event-id': String(since) }, signal: this.#abort.signal });
    const decoder = new TextDecoder();
    let text = '';
    for await (const part of response.body!) {
      text += decoder.decode(part as Uint8Array, { stream: true });
      const lines = text.split('\n');
      text = lines.pop()!;
      for (const line of lines) if (line.startsWith('data: ')) this.#take(JSON.parse(line.slice(6)) as ReadEvent);
    }
  }
}
