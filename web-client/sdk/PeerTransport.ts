import { CandidateQueue } from './CandidateQueue.ts';
import { ClientError } from './ClientError.ts';
import { DataChannels } from './DataChannels.ts';
import type { ControlMessage, InputMessage } from './messages.ts';
import { PeerSound } from './PeerSound.ts';
import { PeerVideo } from './PeerVideo.ts';
import type { Presenter } from './Presenter.ts';
import type { Signalling } from './Signalling.ts';
import type { SoundOutput } from './SoundOutput.ts';
import type { Transport, TransportEvents, TransportStats } from './Transport.ts';

/** ICE that doesn't connect within this is taken for blocked. */
const CONNECT_TIMEOUT_MS = 5_000;
/** Bits a second of a small picture; the model's own is smaller. */
const CAMERA_BITRATE = 400_000;
/** `disconnected` often heals by itself; past this the session is rejoined with a new connection. */
const DISCONNECTED_MS = 2_500;

export interface PeerOptions {
  readonly signalling: Signalling;
  readonly iceServers: RTCIceServer[];
  readonly presenter: Presenter;
  readonly sound: SoundOutput | null;
  /** Id of the connection that this one replaces. */
  readonly rejoin: string | null;
  readonly camera: MediaStreamTrack | null;
  readonly signal: AbortSignal;
}

/** A session's connection over WebRTC. */
export class PeerTransport implements Transport {
  readonly kind = 'webrtc';
  readonly #peer: RTCPeerConnection;
  readonly #signalling: Signalling;
  readonly #channels: DataChannels;
  readonly #candidates: CandidateQueue<RTCIceCandidate>;
  readonly #events: TransportEvents;
  #video: PeerVideo | null = null;
  #audio: RTCRtpTransceiver | null = null;
  #disconnected: ReturnType<typeof setTimeout> | null = null;
  #connectionId: string | null = null;
  #opened = false;
  #closed = false;

  /** Throws ClientError: of the server, `network`, or `timed_out` where ICE doesn't connect within 5 s. */
  static async open(options: PeerOptions, events: TransportEvents): Promise<PeerTransport> {
    const transport = new PeerTransport(options, events);
    try {
      await transport.#connect(options);
    } catch (error) {
      await transport.close();
      throw error;
    }
    return transport;
  }

  private constructor(options: PeerOptions, events: TransportEvents) {
    this.#signalling = options.signalling;
    this.#events = events;
    this.#peer = new RTCPeerConnection({ iceServers: options.iceServers, bundlePolicy: 'max-bundle' });
    this.#candidates = new CandidateQueue(
      (id, candidate) => options.signalling.candidate(id, candidate),
      (error) => events.trouble(error),
    );
    this.#channels = new DataChannels(this.#peer, { message: (message) => events.message(message), lost: (reason) => this.#lost(reason), trouble: (error) => events.trouble(error) });
    this.#peer.addEventListener('icecandidate', (event) => this.#candidates.add(event.candidate));
    this.#peer.addEventListener('connectionstatechange', () => this.#connectionStateChanged());
  }

  get connectionId(): string | null {
    return this.#connectionId;
  }

  sendControl(message: ControlMessage): boolean {
    return !this.#closed && this.#channels.sendControl(message);
  }

  sendInput(message: InputMessage, copies = 1): boolean {
    return !this.#closed && this.#channels.sendInput(message, copies);
  }

  async setMicrophone(track: MediaStreamTrack | null): Promise<void> {
    if (this.#closed || this.#audio === null) return;
    if (track !== null && this.#audio.currentDirection !== 'sendrecv') throw new ClientError('conflict', 'this session listens to no voice');
    await this.#audio.sender.replaceTrack(track);
  }

  async stats(): Promise<TransportStats> {
    let bytesReceived = 0;
    let packetsLost = 0;
    let framesDropped = 0;
    let roundTripMs: number | null = null;
    let jitterBufferMs: number | null = null;
    for (const report of (await this.#peer.getStats()).values()) {
      if (report.type === 'inbound-rtp') {
        bytesReceived += report.bytesReceived ?? 0;
        packetsLost += report.packetsLost ?? 0;
        if (report.kind !== 'video') continue;
        framesDropped += report.framesDropped ?? 0;
        if (report.jitterBufferEmittedCount) jitterBufferMs = (1000 * report.jitterBufferDelay) / report.jitterBufferEmittedCount;
      } else if (report.type === 'candidate-pair' && report.nominated && report.currentRoundTripTime !== undefined) {
        roundTripMs = 1000 * report.currentRoundTripTime;
      }
    }
    return { bytesReceived, roundTripMs, jitterBufferMs, packetsLost, framesDropped };
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#disconnected !== null) clearTimeout(this.#disconnected);
    this.#candidates.close();
    this.#video?.close();
    this.#peer.close();
  }

  async #connect({ presenter, sound, rejoin, camera, signal }: PeerOptions): Promise<void> {
    const video = camera === null ? this.#peer.addTransceiver('video', { direction: 'recvonly' }) : this.#peer.addTransceiver(camera, { direction: 'sendrecv', sendEncodings: [{ maxBitrate: CAMERA_BITRATE }] });
    // Offered both ways, so that a microphone that is turned on later needs no new negotiation.
    const audio = this.#peer.addTransceiver('audio', { direction: 'sendrecv' });
    this.#audio = audio;
    // Frames are worth showing when they come; the server paces them, and keeps sound and picture together at the source.
    for (const { receiver } of [video, audio]) if ('jitterBufferTarget' in receiver) receiver.jitterBufferTarget = 0;

    await this.#peer.setLocalDescription();
    const sdp = this.#peer.localDescription?.sdp;
    if (sdp === undefined) throw new ClientError('unsupported_browser', 'the browser made no offer');
    const answer = await this.#signalling.offer(sdp, rejoin);
    this.#connectionId = answer.id;
    if (signal.aborted) throw new ClientError('closed', 'closed while connecting');
    this.#candidates.start(answer.id);
    this.#video = new PeerVideo(video.receiver, presenter);
    if (sound) sound.setSource(new PeerSound(audio.receiver, sound));
    await this.#peer.setRemoteDescription({ type: 'answer', sdp: answer.sdp });
    await this.#untilOpen(signal);
    this.#opened = true;
  }

  #untilOpen(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const done = (error: ClientError | null): void => {
        clearTimeout(watchdog);
        signal.removeEventListener('abort', aborted);
        this.#peer.removeEventListener('connectionstatechange', changed);
        if (error) reject(error);
        else resolve();
      };
      const watchdog = setTimeout(() => done(new ClientError('timed_out', `no connection within ${CONNECT_TIMEOUT_MS} ms (ICE ${this.#peer.iceConnectionState})`)), CONNECT_TIMEOUT_MS);
      const aborted = (): void => done(new ClientError('closed', 'closed while connecting'));
      const changed = (): void => {
        if (this.#peer.connectionState === 'failed') done(new ClientError('network', 'the peer connection failed'));
      };
      signal.addEventListener('abort', aborted);
      this.#peer.addEventListener('connectionstatechange', changed);
      void this.#channels.opened.then(() => done(null));
    });
  }

  #connectionStateChanged(): void {
    if (this.#disconnected !== null) clearTimeout(this.#disconnected);
    this.#disconnected = null;
    const state = this.#peer.connectionState;
    if (state === 'failed' || state === 'closed') this.#lost(`the peer connection ${state}`);
    else if (state === 'disconnected') this.#disconnected = setTimeout(() => this.#lost('the peer connection was interrupted'), DISCONNECTED_MS);
  }

  #lost(reason: string): void {
    if (this.#closed || !this.#opened) return;
    void this.close();
    this.#events.lost(reason);
  }
}
