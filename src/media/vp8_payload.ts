/** Payload bytes of one RTP packet: with SRTP, extensions and TURN around it still under the 1,200 bytes that every path carries. */
export const MAX_PAYLOAD_BYTES = 1150;
const DESCRIPTOR_BYTES = 4;

/**
 * Cuts one VP8 frame into RTP payloads (RFC 7741): a descriptor with a 15-bit picture id before each part, the parts of equal size,
 * because a small last packet costs as much as a full one.
 */
export function vp8Payloads(frame: Uint8Array, pictureId: number): Buffer[] {
  const room = MAX_PAYLOAD_BYTES - DESCRIPTOR_BYTES;
  const parts = Math.max(1, Math.ceil(frame.length / room));
  const size = Math.ceil(frame.length / parts);
  return Array.from({ length: parts }, (_, part) => {
    const bytes = frame.subarray(part * size, Math.min(frame.length, (part + 1) * size));
    const payload = Buffer.allocUnsafe(DESCRIPTOR_BYTES + bytes.length);
    payload[0] = 0x80 | (part === 0 ? 0x10 : 0); // X: extension follows; S: start of the (only) partition
    payload[1] = 0x80; // I: picture id present
    payload[2] = 0x80 | ((pictureId >> 8) & 0x7f); // M: of 15 bits
    payload[3] = pictureId & 0xff;
    payload.set(bytes, DESCRIPTOR_BYTES);
    return payload;
  });
}
