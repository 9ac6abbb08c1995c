import type { ChannelLabel, ControlMessage, InputMessage, ServerMessage } from './messages.ts';

/**
 * Framing of `WS /v1/sessions/{id}/stream`. Text frames are `{channel, message}`. Binary frames are one encoded picture or 20 ms of sound behind a header of
 * 16 bytes, big endian: kind u8 (0 video, 1 audio) · key u8 · reserved u16 · epoch u32 · rtp u32 · reserved u32.
 */
export interface MediaChunk {
  readonly kind: 'video' | 'audio';
  readonly key: boolean;
  readonly epoch: number;
  readonly rtp: number;
  readonly payload: Uint8Array;
}

export const HEADER_BYTES = 16;

/** Throws TypeError where the bytes are no media frame. */
export function readMediaChunk(buffer: ArrayBuffer): MediaChunk {
  if (buffer.byteLength <= HEADER_BYTES) throw new TypeError(`media frame of ${buffer.byteLength} bytes has no payload`);
  const view = new DataView(buffer);
  const kind = view.getUint8(0);
  if (kind > 1) throw new TypeError(`unknown media kind ${kind}`);
  return {
    kind: kind === 0 ? 'video' : 'audio',
    key: view.getUint8(1) === 1,
    epoch: view.getUint32(4),
    rtp: view.getUint32(8),
    payload: new Uint8Array(buffer, HEADER_BYTES),
  };
}

/** A VP8 frame of a camera: kind 0. */
export function writeVideo(frame: Uint8Array, key: boolean): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEADER_BYTES + frame.byteLength);
  bytes[1] = key ? 1 : 0;
  bytes.set(frame, HEADER_BYTES);
  return bytes;
}

/** A frame of a microphone: kind 2, and 16 bits little endian, mono, 16 kHz behind the header. */
export function writeVoice(samples: Int16Array): ArrayBuffer {
  const frame = new ArrayBuffer(HEADER_BYTES + samples.byteLength);
  const view = new DataView(frame);
  view.setUint8(0, 2);
  for (const [at, sample] of samples.entries()) view.setInt16(HEADER_BYTES + at * 2, sample, true);
  return frame;
}

export function writeText(channel: ChannelLabel, message: ControlMessage | InputMessage): string {
  return JSON.stringify({ channel, message });
}

/** Throws TypeError or SyntaxError where the text is no message. */
export function readText(text: string): { readonly channel: ChannelLabel; readonly message: ServerMessage } {
  const frame = JSON.parse(text) as { channel?: unknown; message?: unknown };
  if ((frame.channel !== 'control' && frame.channel !== 'state') || typeof frame.message !== 'object' || frame.message === null) throw new TypeError('not a {channel, message} frame');
  return { channel: frame.channel, message: frame.message as ServerMessage };
}
