import type { WebSocket } from 'ws';
import type { Logger } from '../observe/log.ts';
import { SegueError } from '../protocol/errors.ts';
import { MAX_CHANNEL_TEXT } from '../protocol/channel_parser.ts';
import type { RelayedMedia, RelaySink } from '../sessions/SessionConnections.ts';
import type { ChannelLabel } from '../streams/messages.ts';

/** Pictures wait in the socket up to this; then they are dropped until the next keyframe. About 0.4 s at the highest bitrate. */
const MAX_VIDEO_BUFFERED = 128 * 1024;
/** Sound is small and missed more: it is dropped later. */
const MAX_AUDIO_BUFFERED = 256 * 1024;
/** Answers are never dropped; a receiver with this much unread is taken for dead. */
const MAX_BUFFERED = 4 * 1024 * 1024;
/** A keyframe is asked for at most this often. */
const KEYFRAME_INTERVAL_MS = 500;
export const STREAM_HEADER_BYTES = 16;
/** Kinds of what a client sends. */
const VIDEO = 0;
const VOICE = 2;
/** 200 ms of a voice in one frame. */
const MAX_VOICE_BYTES = 6400;

/** What a socket needs of its session. */
export interface StreamSession {
  /** The epoch word. */
  readonly epoch: number;
  receive(channel: 'control' | 'input', text: string): void;
  requestKeyframe(): void;
  /** Samples of a microphone. Throws SegueError where they aren't taken. */
  hear(data: Uint8Array): void;
  /** A VP8 frame of a camera. Throws SegueError where none is taken in. */
  see(data: Uint8Array): void;
}

/**
 * One WebSocket of `/v1/sessions/{id}/stream`. Text frames are `{channel, message}`; binary frames are one encoded picture or 20 ms of sound behind a
 * header of 16 bytes, big endian: kind u8 (0 video, 1 audio) · key u8 · reserved u16 · epoch u32 · rtp u32 · reserved u32.
 * A frame of an older epoch is not sent, however long it was on its way here.
 * A client's binary frames have the same header: kind 0 is a VP8 frame of its camera; kind 2 its microphone, 16 bits little endian, mono, 16 kHz, at most 200 ms.
 */
export class StreamSocket implements RelaySink {
  readonly #socket: WebSocket;
  readonly #nowMs: () => number;
  readonly #log: Logger;
  #session: StreamSession | null = null;
  #needsKeyframe = false;
  #askedMs = Number.NEGATIVE_INFINITY;
  #dropped = 0;
  #refusedMedia: string | null = null;

  constructor(socket: WebSocket, nowMs: () => number, log: Logger) {
    this.#socket = socket;
    this.#nowMs = nowMs;
    this.#log = log;
  }

  /** Frames dropped because the socket was full, or fenced. */
  get dropped(): number {
    return this.#dropped;
  }

  bind(session: StreamSession): void {
    this.#session = session;
    this.#socket.on('message', (data, binary) => {
      if (binary) return this.#receiveMedia(data as Buffer);
      this.#receive((data as Buffer).toString('utf8'));
    });
  }

  text(channel: ChannelLabel, text: string): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    if (this.#socket.bufferedAmount > MAX_BUFFERED) {
      this.#log.warn('a WebSocket does not take its answers');
      return this.#socket.terminate();
    }
    // What is wrong with an input is told where the client listens: nothing is sent to it on `input`.
    this.#socket.send(`{"channel":"${channel === 'input' ? 'control' : channel}","message":${text}}`);
  }

  media({ kind, key, epoch, rtp, bytes }: RelayedMedia): void {
    if (this.#socket.readyState !== this.#socket.OPEN || this.#session === null) return;
    const stale = epoch < this.#session.epoch;
    if (kind === 'audio') {
      if (stale || this.#socket.bufferedAmount > MAX_AUDIO_BUFFERED) this.#dropped += 1;
      else this.#send(1, key, epoch, rtp, bytes);
      return;
    }
    if (stale || this.#socket.bufferedAmount > MAX_VIDEO_BUFFERED || (this.#needsKeyframe && !key)) {
      this.#dropped += 1;
      this.#needsKeyframe = true;
      this.#askForKeyframe();
      return;
    }
    this.#needsKeyframe = false;
    this.#send(0, key, epoch, rtp, bytes);
  }

  closed(reason: string): void {
    // RFC 6455: a reason is at most 123 bytes.
    this.#socket.close(1000, Buffer.from(reason, 'utf8').subarray(0, 120).toString('utf8').replace(/\uFFFD+$/, ''));
  }

  #receive(text: string): void {
    let frame: unknown;
    try {
      frame = JSON.parse(text);
    } catch {
      return this.#refuse('bad_json', 'the frame is not JSON');
    }
    const { channel, message } = (typeof frame === 'object' && frame !== null ? frame : {}) as { readonly channel?: unknown; readonly message?: unknown };
    if ((channel !== 'control' && channel !== 'input') || typeof message !== 'object' || message === null) return this.#refuse('bad_request', 'a frame is {channel: control or input, message}');
    const inner = JSON.stringify(message);
    if (inner.length > MAX_CHANNEL_TEXT) return this.#refuse('payload_too_large', `a message is at most ${MAX_CHANNEL_TEXT} characters long`);
    this.#session?.receive(channel, inner);
  }

  #receiveMedia(data: Buffer): void {
    const kind = data.length > STREAM_HEADER_BYTES ? data.readUInt8(0) : null;
    const payload = data.subarray(STREAM_HEADER_BYTES);
    if (kind !== VOICE && kind !== VIDEO) return this.#refuse('bad_request', `a binary frame is ${STREAM_HEADER_BYTES} bytes of header, kind ${VIDEO} (a camera) or ${VOICE} (a microphone), and what it sends`);
    if (kind === VOICE && payload.length > MAX_VOICE_BYTES) return this.#refuse('payload_too_large', `a frame has at most ${MAX_VOICE_BYTES} bytes of samples`);
    if (kind === VOICE && payload.length % 2 !== 0) return this.#refuse('bad_request', 'samples have 16 bits');
    try {
      if (kind === VOICE) this.#session?.hear(Uint8Array.from(payload));
      else this.#session?.see(Uint8Array.from(payload));
    } catch (error) {
      if (!(error instanceof SegueError)) throw error;
      this.#refuseOnce(error);
    }
  }

  /** Fifty frames a second would each be told the same. */
  #refuseOnce(error: SegueError): void {
    if (this.#refusedMedia === error.code) return;
    this.#refusedMedia = error.code;
    this.text('control', JSON.stringify({ type: 'error', error: error.toBody() }));
  }

  #refuse(code: 'bad_json' | 'bad_request' | 'payload_too_large', message: string): void {
    this.text('control', JSON.stringify({ type: 'error', error: { code, message, retryable: false } }));
  }

  #askForKeyframe(): void {
    const now = this.#nowMs();
    // Nothing can be sent while the socket is full: a keyframe would be dropped as well.
    if (now - this.#askedMs < KEYFRAME_INTERVAL_MS || this.#socket.bufferedAmount > MAX_VIDEO_BUFFERED) return;
    this.#askedMs = now;
    this.#session?.requestKeyframe();
  }

  #send(kind: 0 | 1, key: boolean, epoch: number, rtp: number, bytes: Uint8Array): void {
    const frame = Buffer.allocUnsafe(STREAM_HEADER_BYTES + bytes.byteLength);
    frame.writeUInt8(kind, 0);
    frame.writeUInt8(key ? 1 : 0, 1);
    frame.writeUInt16BE(0, 2);
    frame.writeUInt32BE(epoch >>> 0, 4);
    frame.writeUInt32BE(rtp >>> 0, 8);
    frame.writeUInt32BE(0, 12);
    frame.set(bytes, STREAM_HEADER_BYTES);
    this.#socket.send(frame);
  }
}
