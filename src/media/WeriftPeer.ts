import { networkInterfaces } from 'node:os';
import {
  MediaStreamTrack,
  RTCPeerConnection,
  RTCRtpCodecParameters,
  RTP_EXTENSION_URI,
  RtcpPayloadSpecificFeedback,
  RtcpRrPacket,
  useAbsSendTime,
  useFIR,
  useNACK,
  usePLI,
  useREMB,
  type RTCRtpTransceiver,
  type RtcpPacket,
} from 'werift';
import type { Clock, Timer } from '../observe/clock.ts';
import type { Logger } from '../observe/log.ts';
import { SegueError } from '../protocol/errors.ts';
import type { ChannelLabel, IceCandidate } from '../streams/messages.ts';
import { DataChannels } from './DataChannels.ts';
import type { IceOptions, MediaOptions } from './options.ts';
import type { OutgoingPicture, OutgoingSound, Peer, PeerEvents, PeerState, Sent } from './Peer.ts';
import type { RtpClock } from './RtpClock.ts';
import { RtpTrack } from './RtpTrack.ts';
import { deliverWhatIsComplete } from './sctp_reassembly.ts';
import { Vp8Assembly } from './Vp8Assembly.ts';
import { vp8Payloads } from './vp8_payload.ts';

const REPORT_INTERVAL_MS = 1000;
/**
 * A receiver reports about once a second while media flows, and media always flows. Without a word for this long it is taken for
 * gone: a closed tab says nothing, and ICE consent takes 30 s to expire.
 */
const SILENCE_MS = 5000;
/** After a lost path this long is waited for it to come back. */
const DISCONNECTED_TIMEOUT_MS = 10_000;
const CLOSE_TIMEOUT_MS = 2000;
/** RTCP payload-specific feedback formats (RFC 4585, 5104; REMB draft). */
const PLI = 1;
const FIR = 4;
const REMB = 15;
const NOTHING: Sent = { packets: 0, bytes: 0 };

/**
 * A browser on werift. Answers one offer; sends VP8 and Opus; takes the browser's three data channels.
 *
 * Work-arounds for 0.25.2: no transport-cc (its feedback pins the browser's estimates); RTCP is read where it leaves DTLS, because the
 * router sends the PLI of a browser with a camera to the wrong object and a FIR nowhere; sender reports and send times are made here
 * ({@link RtpTrack}); sound and picture in separate streams, or Chromium delays the picture by the sound device's buffer.
 */
export class WeriftPeer implements Peer {
  readonly connectionId: string;
  readonly #options: MediaOptions;
  readonly #events: PeerEvents;
  readonly #clock: Clock;
  readonly #rtp: RtpClock;
  readonly #log: Logger;
  readonly #connection: RTCPeerConnection;
  readonly #channels: DataChannels;
  readonly #hears: boolean;
  readonly #sees: boolean;
  #camera: { readonly receiver: RTCRtpTransceiver['receiver']; readonly ssrc: number } | null = null;
  #picture: RtpTrack | null = null;
  #sound: RtpTrack | null = null;
  #state: PeerState = 'connecting';
  #pictureId = Math.floor(Math.random() * 2 ** 15);
  /** Delta frames before the first keyframe would only be PLIs. */
  #hasKeyframe = false;
  #watchdog: Timer | null = null;
  #reports: Timer | null = null;
  #quiet: Timer | null = null;
  #heardMs = -Infinity;
  #closing: Promise<void> | null = null;

  constructor(deps: {
    readonly connectionId: string;
    readonly options: MediaOptions;
    readonly events: PeerEvents;
    readonly clock: Clock;
    readonly rtp: RtpClock;
    readonly log: Logger;
    /** Whether it listens to a microphone, if the browser offers one. */
    readonly hears: boolean;
    /** Whether it takes a camera in, if the browser offers one. */
    readonly sees: boolean;
    /** ICE or DTLS did not come up in time, or broke for good; `close()` follows. */
    readonly failed: (error: SegueError) => void;
  }) {
    this.connectionId = deps.connectionId;
    this.#options = deps.options;
    this.#events = deps.events;
    this.#clock = deps.clock;
    this.#rtp = deps.rtp;
    this.#log = deps.log;
    this.#hears = deps.hears;
    this.#sees = deps.sees;
    this.#fail = (error) => {
      if (this.#closing !== null) return;
      deps.failed(error);
      void this.close();
    };
    this.#connection = new RTCPeerConnection(configuration(deps.options));
    this.#channels = new DataChannels({
      message: (channel, data) => {
        if (this.#closing !== null) return;
        this.#heard();
        this.#events.message(channel, data);
      },
      overflowed: () => this.#fail(new SegueError('timed_out', 'the receiver does not take its answers')),
    });
    this.#connection.onDataChannel.subscribe((channel) => this.#channels.add(channel));
    this.#connection.connectionStateChange.subscribe((state) => this.#stateChanged(state));
    this.#arm(deps.options.limits.connectTimeoutMs, 'the connection was not established in time');
  }

  readonly #fail: (error: SegueError) => void;

  get state(): PeerState {
    return this.#state;
  }

  /**
   * The answer to an offer, with all candidates.
   * @throws {SegueError} `bad_sdp` for anything that is not an offer with media or data.
   */
  async answer(offer: string): Promise<string> {
    try {
      if (!/^v=0\r?\n/.test(offer) || !/^m=/m.test(offer)) throw new Error('not a session description');
      await this.#connection.setRemoteDescription({ type: 'offer', sdp: offer });
      if (this.#connection.sctpTransport !== undefined) deliverWhatIsComplete(this.#connection.sctpTransport);
      this.#prepare();
      const answer = await this.#connection.createAnswer();
      await this.#connection.setLocalDescription(answer);
    } catch (cause) {
      throw new SegueError('bad_sdp', `the offer is not usable: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    }
    if (this.#closing !== null) throw new SegueError('session_closed', 'the connection was closed meanwhile');
    this.#bindTracks();
    return offered(this.#connection.localDescription?.sdp ?? '', this.#options.ice);
  }

  /** One picture and one sound stream go out; one microphone and one camera come in where they are wanted; further m-lines stay inactive. */
  #prepare(): void {
    const taken = new Set<string>();
    for (const transceiver of this.#connection.getTransceivers()) {
      const first = !taken.has(transceiver.kind);
      taken.add(transceiver.kind);
      const takes = transceiver.kind === 'audio' ? this.#hears : this.#sees;
      transceiver.setDirection(!first ? 'inactive' : takes ? 'sendrecv' : 'sendonly');
      if (!first) continue;
      transceiver.sender.streamId = transceiver.kind;
      transceiver.sender.registerTrack(new MediaStreamTrack({ kind: transceiver.kind }));
      if (!takes) continue;
      const take = (track: MediaStreamTrack): void => (transceiver.kind === 'audio' ? this.#listen(track) : this.#watch(track, transceiver));
      // Those that the offer names are there already.
      for (const track of transceiver.receiver.tracks) take(track);
      transceiver.onTrack.subscribe(take);
    }
  }

  #bindTracks(): void {
    const extension = Object.entries(this.#connection.extIdUriMap).find(([, uri]) => uri === RTP_EXTENSION_URI.absSendTime);
    const sendTime = extension === undefined ? null : Number(extension[0]);
    for (const transceiver of this.#connection.getTransceivers()) {
      if (transceiver.kind === 'video' && this.#picture === null) this.#picture = this.#track(transceiver, sendTime);
      else if (transceiver.kind === 'audio' && this.#sound === null) this.#sound = this.#track(transceiver, null);
    }
    for (const transport of this.#connection.dtlsTransports) transport.onRtcp.subscribe((packet) => this.#feedback(packet));
  }

  #track(transceiver: RTCRtpTransceiver, sendTime: number | null): RtpTrack {
    return new RtpTrack(transceiver.sender, sendTime);
  }

  /** Packets that come too late are left out: what follows them has been judged. */
  #listen(track: MediaStreamTrack): void {
    let newest: number | null = null;
    track.onReceiveRtp.subscribe(({ header, payload }) => {
      if (this.#closing !== null || payload.length === 0) return;
      if (newest !== null && ((header.sequenceNumber - newest) & 0xffff) - 1 >= 0x7fff) return;
      newest = header.sequenceNumber;
      this.#heard();
      this.#events.sound(Uint8Array.from(payload));
    });
  }

  #watch(track: MediaStreamTrack, { receiver }: RTCRtpTransceiver): void {
    const assembly = new Vp8Assembly((frame) => this.#events.picture(frame));
    track.onReceiveRtp.subscribe(({ header, payload }) => {
      if (this.#closing !== null) return;
      this.#heard();
      this.#camera = { receiver, ssrc: header.ssrc };
      assembly.packet(header.sequenceNumber, header.timestamp, header.marker, payload);
    });
  }

  askForKeyframe(): void {
    if (this.#closing !== null || this.#camera === null) return;
    const { receiver, ssrc } = this.#camera;
    receiver.sendRtcpPLI(ssrc).catch((error: unknown) => this.#log.debug({ err: error, connectionId: this.connectionId }, 'no keyframe could be asked for'));
  }

  async addCandidate(candidate: IceCandidate | null): Promise<void> {
    if (this.#closing !== null || candidate === null || candidate.candidate === '') return;
    try {
      await this.#connection.addIceCandidate({
        candidate: candidate.candidate,
        ...(candidate.sdpMid === null ? {} : { sdpMid: candidate.sdpMid }),
        ...(candidate.sdpMLineIndex === null ? {} : { sdpMLineIndex: candidate.sdpMLineIndex }),
      });
    } catch (error) {
      // A candidate of a kind that we can't reach (mDNS, IPv6) is no reason to give the others up.
      this.#log.debug({ err: error, connectionId: this.connectionId }, 'candidate not used');
    }
  }

  sendPicture(picture: OutgoingPicture): Sent {
    if (this.#state !== 'connected' || this.#picture === null) return NOTHING;
    if (!this.#hasKeyframe && !picture.keyframe) return NOTHING;
    this.#hasKeyframe = true;
    this.#pictureId = (this.#pictureId + 1) & 0x7fff;
    return this.#picture.send(vp8Payloads(picture.data, this.#pictureId), picture.rtp, this.#rtp.ntp(this.#clock.now()));
  }

  sendSound(sound: OutgoingSound): Sent {
    if (this.#state !== 'connected' || this.#sound === null) return NOTHING;
    return this.#sound.send([Buffer.from(sound.data.buffer, sound.data.byteOffset, sound.data.byteLength)], sound.rtp, this.#rtp.ntp(this.#clock.now()));
  }

  sendText(channel: ChannelLabel, text: string): boolean {
    return this.#closing === null && this.#channels.send(channel, text);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#watchdog?.cancel();
    this.#reports?.cancel();
    this.#quiet?.cancel();
    if (this.#state === 'connected') await this.#channels.flushed();
    let timer: NodeJS.Timeout | undefined;
    const bound = new Promise<void>((resolve) => (timer = setTimeout(resolve, CLOSE_TIMEOUT_MS)));
    const closed = this.#connection.close().catch((error: unknown) => this.#log.warn({ err: error, connectionId: this.connectionId }, 'peer did not close cleanly'));
    await Promise.race([closed, bound]);
    clearTimeout(timer);
    this.#state = 'closed';
    this.#events.state('closed');
  }

  #stateChanged(state: string): void {
    if (this.#closing !== null) return;
    switch (state) {
      case 'connected':
        this.#up();
        return;
      case 'disconnected':
        this.#lost();
        return;
      case 'failed':
        this.#fail(new SegueError('timed_out', 'the connection failed'));
        return;
      case 'closed':
        void this.close();
        return;
    }
  }

  #up(): void {
    this.#watchdog?.cancel();
    this.#silence(SILENCE_MS);
    if (this.#state === 'connected') return;
    this.#state = 'connected';
    this.#events.state('connected');
    this.#scheduleReport();
  }

  #lost(): void {
    if (this.#state !== 'connected') return;
    this.#arm(DISCONNECTED_TIMEOUT_MS, 'the connection was lost');
    this.#state = 'disconnected';
    this.#hasKeyframe = false;
    this.#events.state('disconnected');
  }

  /** A sign of life. Cheap: the timer is set anew only when it fires. */
  #heard(): void {
    this.#heardMs = this.#clock.now();
    if (this.#state === 'disconnected' && this.#connection.connectionState === 'connected') this.#up();
  }

  #silence(ms: number): void {
    this.#quiet?.cancel();
    this.#quiet = this.#clock.schedule(this.#clock.now() + ms, () => {
      if (this.#state !== 'connected' || this.#closing !== null) return;
      const left = this.#heardMs + SILENCE_MS - this.#clock.now();
      if (left > 0) this.#silence(left);
      else this.#lost();
    });
  }

  #arm(ms: number, message: string): void {
    this.#watchdog?.cancel();
    this.#watchdog = this.#clock.schedule(this.#clock.now() + ms, () => this.#fail(new SegueError('timed_out', message)));
  }

  #scheduleReport(): void {
    this.#reports?.cancel();
    this.#reports = this.#clock.schedule(this.#clock.now() + REPORT_INTERVAL_MS, () => {
      if (this.#state !== 'connected') return;
      this.#report();
      this.#scheduleReport();
    });
  }

  #report(): void {
    const now = this.#clock.now();
    const ntp = this.#rtp.ntp(now);
    for (const [track, rtp] of [[this.#picture, this.#rtp.video(now)] as const, [this.#sound, this.#rtp.audio(now)] as const]) {
      if (track === null || !track.started) continue;
      track.sender.dtlsTransport.sendRtcp(track.report(rtp, ntp, this.#connection.cname)).catch((error: unknown) => this.#log.debug({ err: error }, 'sender report not sent'));
    }
  }

  #feedback(packet: RtcpPacket): void {
    if (this.#closing !== null) return;
    this.#heard();
    if (packet instanceof RtcpRrPacket) {
      const report = packet.reports.find(({ ssrc }) => ssrc === this.#picture?.sender.ssrc);
      if (report !== undefined) this.#events.lost(report.fractionLost / 256);
      return;
    }
    if (!(packet instanceof RtcpPayloadSpecificFeedback)) return;
    const feedback = packet.feedback as { readonly count: number; readonly bitrate?: bigint } | undefined;
    if (feedback?.count === PLI || feedback?.count === FIR) this.#events.keyframeNeeded();
    else if (feedback?.count === REMB && feedback.bitrate !== undefined) this.#events.estimated(Number(feedback.bitrate));
  }
}

function configuration({ ice, limits }: MediaOptions): ConstructorParameters<typeof RTCPeerConnection>[0] {
  const feedback = [useNACK(), { type: 'nack', parameter: 'pli' }, usePLI(), useFIR(), useREMB()];
  // An address that is only forwarded here can be offered but not bound to.
  const local = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const bind = ice.onlyAdditional ? ice.additionalHostAddresses.find((address) => local.some((at) => at.family === 'IPv4' && at.address === address)) : undefined;
  return {
    codecs: {
      video: [new RTCRtpCodecParameters({ mimeType: 'video/VP8', clockRate: 90_000, rtcpFeedback: feedback }), new RTCRtpCodecParameters({ mimeType: 'video/rtx', clockRate: 90_000 })],
      audio: [new RTCRtpCodecParameters({ mimeType: 'audio/opus', clockRate: 48_000, channels: 2 })],
    },
    headerExtensions: { video: [useAbsSendTime()], audio: [] },
    iceServers: ice.servers.map(({ urls, username, credential }) => ({ urls: [...urls], ...(username === undefined ? {} : { username }), ...(credential === undefined ? {} : { credential }) })),
    iceAdditionalHostAddresses: [...ice.additionalHostAddresses],
    iceUseIpv6: !ice.onlyAdditional || ice.additionalHostAddresses.some((address) => address.includes(':')),
    ...(bind === undefined ? {} : { iceInterfaceAddresses: { udp4: bind } }),
    ...(ice.portRange === null ? {} : { icePortRange: [ice.portRange[0], ice.portRange[1]] as [number, number] }),
    maxMessageSize: limits.maxMessageBytes,
  };
}

/**
 * The answer as it is given out: without transport-cc, which werift takes over from the offer, and, where only configured addresses
 * may be offered, without the candidates of other interfaces.
 */
function offered(sdp: string, { onlyAdditional, additionalHostAddresses }: IceOptions): string {
  const foreign = (line: string): boolean => onlyAdditional && line.startsWith('a=candidate:') && line.includes(' typ host') && !additionalHostAddresses.includes(line.split(' ')[4] ?? '');
  return sdp
    .split('\r\n')
    .filter((line) => !/^a=rtcp-fb:\d+ transport-cc$/.test(line) && !foreign(line))
    .join('\r\n');
}
