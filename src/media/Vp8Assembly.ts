import { Vp8RtpPayload } from 'werift';

/** A frame's payloads together; more is no frame of a camera. */
const MAX_FRAME_BYTES = 1024 * 1024;

/** VP8 frames from RTP packets (RFC 7741), in the order in which they come. A packet that is missing, or comes too late, costs the frame that it belongs to: null in its place. */
export class Vp8Assembly {
  readonly #frame: (frame: Uint8Array | null) => void;
  #parts: Buffer[] = [];
  #bytes = 0;
  #timestamp: number | null = null;
  #expected: number | null = null;
  /** Nothing of this frame can be used. */
  #broken = false;

  constructor(frame: (frame: Uint8Array | null) => void) {
    this.#frame = frame;
  }

  packet(sequence: number, timestamp: number, marker: boolean, payload: Buffer): void {
    if (this.#expected !== null) {
      const ahead = (sequence - this.#expected) & 0xffff;
      if (ahead >= 0x8000) return; // late, or a repeat
      if (ahead > 0) this.#lose();
    }
    this.#expected = (sequence + 1) & 0xffff;
    if (payload.length < 2) return; // padding
    if (timestamp !== this.#timestamp) {
      if (this.#parts.length > 0) this.#lose(); // its last packet never came
      this.#timestamp = timestamp;
      this.#broken = false;
    }
    const part = Vp8RtpPayload.deSerialize(payload);
    if (this.#parts.length === 0 && !(part.isPartitionHead && part.pid === 0)) this.#broken = true;
    this.#bytes += part.payload.length;
    if (this.#bytes > MAX_FRAME_BYTES) this.#lose();
    if (!this.#broken) this.#parts.push(part.payload);
    if (!marker) return;
    const whole = this.#broken ? null : Uint8Array.from(Buffer.concat(this.#parts));
    this.#begin();
    this.#frame(whole);
  }

  #lose(): void {
    this.#begin();
    this.#broken = true;
    this.#frame(null);
  }

  #begin(): void {
    this.#parts = [];
    this.#bytes = 0;
  }
}
