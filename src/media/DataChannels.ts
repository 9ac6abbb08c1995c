import type { RTCDataChannel } from 'werift';
import type { ChannelLabel } from '../streams/messages.ts';

/** `state` is a running commentary: past this backlog the newest lines are left out. */
const STATE_BACKLOG_BYTES = 256 * 1024;
/** `control` answers are never dropped: past this the receiver is taken for dead. */
const CONTROL_BACKLOG_BYTES = 4 * 1024 * 1024;
/** Texts kept for a channel that is not open yet. */
const EARLY_TEXTS = 64;
const FLUSH_TIMEOUT_MS = 250;
const FLUSH_POLL_MS = 10;

/** The three data channels of a browser, as the browser created them. Channels by any other name are closed. */
export class DataChannels {
  readonly #open = new Map<ChannelLabel, RTCDataChannel>();
  readonly #early = new Map<ChannelLabel, string[]>();
  readonly #events: { message(channel: ChannelLabel, data: string | Uint8Array): void; overflowed(): void };

  /** @param events `overflowed`: the receiver doesn't take its answers; the connection is of no use any more. */
  constructor(events: { message(channel: ChannelLabel, data: string | Uint8Array): void; overflowed(): void }) {
    this.#events = events;
  }

  add(channel: RTCDataChannel): void {
    const label = channel.label;
    if ((label !== 'control' && label !== 'input' && label !== 'state') || this.#open.has(label)) {
      channel.close();
      return;
    }
    this.#open.set(label, channel);
    channel.onMessage.subscribe((data) => this.#events.message(label, data));
    channel.stateChanged.subscribe((state) => {
      if (state === 'open') this.#flushEarly(label);
    });
    if (channel.readyState === 'open') this.#flushEarly(label);
  }

  send(label: ChannelLabel, text: string): boolean {
    const channel = this.#open.get(label);
    if (channel?.readyState !== 'open') return this.#keepEarly(label, text);
    if (label === 'state' && channel.bufferedAmount > STATE_BACKLOG_BYTES) return false;
    if (channel.bufferedAmount > CONTROL_BACKLOG_BYTES) {
      this.#events.overflowed();
      return false;
    }
    channel.send(text);
    return true;
  }

  /** Resolves when what was sent has been taken, or after a bound. */
  async flushed(): Promise<void> {
    for (let waited = 0; waited < FLUSH_TIMEOUT_MS; waited += FLUSH_POLL_MS) {
      const pending = [...this.#open.values()].some((channel) => channel.readyState === 'open' && channel.bufferedAmount > 0);
      if (!pending) break;
      await new Promise((resolve) => setTimeout(resolve, FLUSH_POLL_MS));
    }
    // Handed to SCTP is not yet on the wire.
    await new Promise((resolve) => setTimeout(resolve, FLUSH_POLL_MS));
  }

  #keepEarly(label: ChannelLabel, text: string): boolean {
    const texts = this.#early.get(label) ?? [];
    this.#early.set(label, texts);
    if (texts.length >= EARLY_TEXTS) return false;
    texts.push(text);
    return true;
  }

  #flushEarly(label: ChannelLabel): void {
    const texts = this.#early.get(label) ?? [];
    this.#early.delete(label);
    for (const text of texts) this.send(label, text);
  }
}
