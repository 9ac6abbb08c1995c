/** A small reader of `text/event-stream`, for tests. */
export interface ReadEvent {
  readonly id: string | null;
  readonly type: string;
  readonly data: Record<string, unknown>;
}

export class EventReader {
  readonly events: ReadEvent[] = [];
  readonly #abort = new AbortController();
  readonly #ended: Promise<void>;
  #wake: () => void = () => undefined;
  ended = false;

  private constructor(response: Response) {
    this.#ended = this.#read(response);
  }

  static async open(url: string, headers: Record<string, string>): Promise<EventReader> {
    const abort = new AbortController();
    const response = await fetch(url, { headers, signal: abort.signal });
    if (!response.ok) throw new Error(`events answered ${response.status} ${await response.text()}`);
    const reader = new EventReader(response);
    reader.#abort.signal.addEventListener('abort', () => abort.abort());
    return reader;
  }

  async until(found: (event: ReadEvent) => boolean): Promise<ReadEvent> {
    for (;;) {
      const event = this.events.find(found);
      if (event) return event;
      if (this.ended) throw new Error(`the stream ended after ${this.events.map(({ type }) => type).join(', ')}`);
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async untilEnd(): Promise<void> {
    await this.#ended;
  }

  async close(): Promise<void> {
    this.#abort.abort();
    await this.#ended;
  }

  async #read(response: Response): Promise<void> {
    let text = '';
    try {
      for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
        text += chunk;
        const blocks = text.split('\n\n');
        text = blocks.pop()!;
        for (const block of blocks) {
          const fields = new Map(block.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)] as const));
          const data = fields.get('data');
          if (data !== undefined) this.events.push({ id: fields.get('id') ?? null, type: fields.get('event') ?? 'message', data: JSON.parse(data) as Record<string, unknown> });
        }
        this.#wake();
      }
    } catch (error) {
      if (!this.#abort.signal.aborted) throw error;
    } finally {
      this.ended = true;
      this.#wake();
    }
  }
}
