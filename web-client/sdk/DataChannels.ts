import type { ControlMessage, InputMessage, ServerMessage } from './messages.ts';

/** Input that can't be sent at once is old by the time it could be. */
const MAX_INPUT_BUFFERED_BYTES = 16_384;

/** The three channels of a connection; the client creates them, so that they are part of its offer. */
export class DataChannels {
  readonly #control: RTCDataChannel;
  readonly #input: RTCDataChannel;
  readonly #state: RTCDataChannel;
  /** Resolves when all three are open; the owner has the watchdog. */
  readonly opened: Promise<unknown>;

  constructor(peer: RTCPeerConnection, events: { message(message: ServerMessage): void; lost(reason: string): void; trouble(error: Error): void }) {
    this.#control = peer.createDataChannel('control', { ordered: true });
    this.#input = peer.createDataChannel('input', { ordered: false, maxRetransmits: 0 });
    this.#state = peer.createDataChannel('state', { ordered: true });
    this.opened = Promise.all(
      [this.#control, this.#input, this.#state].map((channel) => new Promise<void>((resolve) => channel.addEventListener('open', () => resolve(), { once: true }))),
    );
    for (const channel of [this.#control, this.#state]) {
      channel.addEventListener('message', (event: MessageEvent<unknown>) => {
        if (typeof event.data !== 'string') return;
        try {
          events.message(JSON.parse(event.data) as ServerMessage);
        } catch (cause) {
          events.trouble(new Error(`unreadable message on ${channel.label}`, { cause }));
        }
      });
    }
    this.#control.addEventListener('close', () => events.lost('the control channel closed'));
  }

  sendControl(message: ControlMessage): boolean {
    if (this.#control.readyState !== 'open') return false;
    this.#control.send(JSON.stringify(message));
    return true;
  }

  sendInput(message: InputMessage, copies: number): boolean {
    if (this.#input.readyState !== 'open' || this.#input.bufferedAmount > MAX_INPUT_BUFFERED_BYTES) return false;
    const text = JSON.stringify(message);
    for (let copy = 0; copy < copies; copy += 1) this.#input.send(text);
    return true;
  }
}
