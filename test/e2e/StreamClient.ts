import { once } from 'node:events';
import { WebSocket } from 'ws';
import type { ControlMessage, InputMessage, ServerControlMessage, ServerStateMessage } from '../../src/protocol/channel.ts';
import { PROTOCOL_VERSION } from '../../src/protocol/channel.ts';

export interface MediaPacket {
  readonly at: number;
  readonly kind: 'video' | 'audio';
  readonly key: boolean;
  readonly epoch: number;
  readonly rtp: number;
  readonly bytes: number;
}

export type ServerMessage = ServerControlMessage | ServerStateMessage;
const HEADER_BYTES = 16;
/** Media packets kept: a minute of pictures and sound. */
const MAX_PACKETS = 4_000;

/** A person without a browser: joins over the WebSocket, keeps what comes, and reports what it "presents" as a browser would. */
export class StreamClient {
  readonly messages: (ServerMessage & { readonly at: number })[] = [];
  readonly packets: MediaPacket[] = [];
  readonly socket: WebSocket;
  #reports: NodeJS.Timeout | null = null;
  #counter = 0;
  /** Code of the socket's close, once it has closed. */
  closedWith: number | null = null;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data: Buffer, binary) => (binary ? this.#media(data) : this.messages.push({ ...(JSON.parse(data.toString()) as { message: ServerMessage }).message, at: performance.now() })));
    socket.on('close', (code) => {
      this.closedWith = code;
      if (this.#reports !== null) clearInterval(this.#reports);
    });
    socket.on('error', () => undefined); // told by `close`
  }

  /** Connects and says hello. `reports: false`: a client that never says what it has presented. */
  static async join(baseUrl: string, sessionId: string, token: string, { reports = true }: { reports?: boolean } = {}): Promise<StreamClient> {
    const client = await StreamClient.connect(baseUrl, sessionId, token);
    client.send({ type: 'hello', id: 'hello', protocol: PROTOCOL_VERSION });
    await client.until('ready', (message) => message.type === 'ready');
    if (reports) client.#reports = setInterval(() => client.#report(), 100);
    return client;
  }

  static async connect(baseUrl: string, sessionId: string, token: string): Promise<StreamClient> {
    const socket = new WebSocket(`${baseUrl.replace(/^http/, 'ws')}/v1/sessions/${sessionId}/stream?token=${encodeURIComponent(token)}`);
    const client = new StreamClient(socket);
    await once(socket, 'open');
    return client;
  }

  nextId(): string {
    return `t${++this.#counter}`;
  }

  send(message: ControlMessage): void {
    this.raw(JSON.stringify({ channel: 'control', message }));
  }

  input(message: InputMessage): void {
    this.raw(JSON.stringify({ channel: 'input', message }));
  }

  raw(data: string | Buffer): void {
    this.socket.send(data);
  }

  /** Sends a request and waits for its `applied` or `error`. */
  async request(message: ControlMessage, timeoutMs = 10_000): Promise<ServerMessage> {
    this.send(message);
    return this.until(`answer to ${message.type} ${message.id}`, (answer) => 're' in answer && answer.re === message.id && (answer.type === 'applied' || answer.type === 'error' || answer.type === 'superseded'), timeoutMs);
  }

  async until(what: string, matches: (message: ServerMessage) => boolean, timeoutMs = 10_000): Promise<ServerMessage & { readonly at: number }> {
    return this.#poll(what, () => this.messages.find(matches), timeoutMs);
  }

  /** Waits for a picture that came after `sinceMs` (of the local clock) and satisfies `matches`. */
  async untilPicture(what: string, matches: (packet: MediaPacket) => boolean = () => true, sinceMs = performance.now(), timeoutMs = 10_000): Promise<MediaPacket> {
    return this.#poll(what, () => this.packets.find((packet) => packet.kind === 'video' && packet.at >= sinceMs && matches(packet)), timeoutMs);
  }

  pictures(fromMs: number, toMs: number): MediaPacket[] {
    return this.packets.filter((packet) => packet.kind === 'video' && packet.at >= fromMs && packet.at < toMs);
  }

  async close(): Promise<void> {
    if (this.#reports !== null) clearInterval(this.#reports);
    if (this.closedWith !== null) return;
    const closed = once(this.socket, 'close');
    this.socket.close();
    await closed;
  }

  async #poll<T>(what: string, find: () => T | undefined, timeoutMs: number): Promise<T> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const found = find();
      if (found !== undefined) return found;
      if (performance.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}; last messages: ${JSON.stringify(this.messages.slice(-4))}`);
      if (this.closedWith !== null) throw new Error(`the socket closed with ${this.closedWith} before: ${what}; last messages: ${JSON.stringify(this.messages.slice(-4))}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  #media(data: Buffer): void {
    if (this.packets.length >= MAX_PACKETS) this.packets.splice(0, MAX_PACKETS / 2);
    this.packets.push({
      at: performance.now(),
      kind: data.readUInt8(0) === 0 ? 'video' : 'audio',
      key: data.readUInt8(1) === 1,
      epoch: data.readUInt32BE(4),
      rtp: data.readUInt32BE(8),
      bytes: data.length - HEADER_BYTES,
    });
  }

  #report(): void {
    const videoRtp = this.packets.findLast(({ kind }) => kind === 'video')?.rtp;
    const audioRtp = this.packets.findLast(({ kind }) => kind === 'audio')?.rtp;
    if (videoRtp === undefined || this.socket.readyState !== WebSocket.OPEN) return;
    this.input({ type: 'position', videoRtp, ...(audioRtp === undefined ? {} : { audioRtp }) });
  }
}
