import { RtcpSenderInfo, RtcpSourceDescriptionPacket, RtcpSrPacket, RtpHeader, RtpPacket, SourceDescriptionChunk, SourceDescriptionItem, type RTCRtpSender } from 'werift';
import type { Sent } from './Peer.ts';

const IP_UDP_SRTP_BYTES = 20 + 8 + 10;

/**
 * One outgoing RTP stream on a werift sender: sequence numbers, the packets' own send time, and sender reports.
 *
 * Reports and send times are ours because werift's are wrong in 0.25.2: its NTP time has no fraction (up to a second off), and
 * its reports repeat the last packet's time however long ago that was. Browsers would draw lip sync and bandwidth from both.
 */
export class RtpTrack {
  readonly sender: RTCRtpSender;
  readonly #sendTimeExtension: number | null;
  #sequence = Math.floor(Math.random() * 2 ** 15);
  #packets = 0;
  #octets = 0;

  /** @param sendTimeExtension id of `abs-send-time` as negotiated, or null. */
  constructor(sender: RTCRtpSender, sendTimeExtension: number | null) {
    this.sender = sender;
    this.#sendTimeExtension = sendTimeExtension;
    sender.rtcpRunning = true; // keeps werift from starting reports of its own
  }

  /** Sends at once: encryption and the socket call happen before this returns. */
  send(payloads: readonly Buffer[], rtp: number, ntp: bigint): Sent {
    let bytes = 0;
    payloads.forEach((payload, index) => {
      this.#sequence = (this.#sequence + 1) & 0xffff;
      const header = new RtpHeader({
        version: 2,
        marker: index === payloads.length - 1,
        sequenceNumber: this.#sequence,
        timestamp: rtp,
        ...(this.#sendTimeExtension === null ? {} : { extension: true, extensions: [{ id: this.#sendTimeExtension, payload: absoluteSendTime(ntp) }] }),
      });
      bytes += payload.length + header.serializeSize + IP_UDP_SRTP_BYTES;
      this.#packets++;
      this.#octets += payload.length;
      // Never rejects once connected: a lost datagram is the network's business, and NACK asks for it.
      this.sender.sendRtp(new RtpPacket(header, payload)).catch(() => undefined);
    });
    return { packets: payloads.length, bytes };
  }

  /** The mapping of RTP time to wall time, both at this moment. */
  report(rtp: number, ntp: bigint, cname: string): [RtcpSrPacket, RtcpSourceDescriptionPacket] {
    return [
      new RtcpSrPacket({
        ssrc: this.sender.ssrc,
        senderInfo: new RtcpSenderInfo({ ntpTimestamp: ntp, rtpTimestamp: rtp, packetCount: this.#packets >>> 0, octetCount: this.#octets >>> 0 }),
      }),
      new RtcpSourceDescriptionPacket({ chunks: [new SourceDescriptionChunk({ source: this.sender.ssrc, items: [new SourceDescriptionItem({ type: 1, text: cname })] })] }),
    ];
  }

  get started(): boolean {
    return this.#packets > 0;
  }
}

/** 24 bits of NTP time: 6 of seconds, 18 of fraction. */
function absoluteSendTime(ntp: bigint): Buffer {
  const bytes = Buffer.alloc(3);
  bytes.writeUIntBE(Number((ntp >> 14n) & 0xffffffn), 0, 3);
  return bytes;
}
