import type { Clock, Timer } from '../observe/clock.ts';
import { DroppedMemory } from '../observe/DroppedMemory.ts';
import type { Logger } from '../observe/log.ts';
import { SegueError } from '../protocol/errors.ts';
import type { ControlToMedia, EngineToMedia, IceCandidate, MediaStats } from '../streams/messages.ts';
import { EarlyMedia } from './EarlyMedia.ts';
import { MediaSession } from './MediaSession.ts';
import type { MediaSinks } from './media_session_deps.ts';
import type { NativeCodecs } from './native.ts';
import type { MediaOptions } from './options.ts';
import type { Peer, PeerEvents } from './Peer.ts';
import { RelayPeer } from './RelayPeer.ts';
import { RtpClock } from './RtpClock.ts';
import { addCounters, NO_STATS } from './media_stats.ts';
import { VoiceThread, type VoiceJudge } from './voice/VoiceJudge.ts';
import { WeriftPeer } from './WeriftPeer.ts';

const STATS_INTERVAL_MS = 1000;
/** Closed sessions whose late chunks still have a pool to go back to. */
const CLOSED_KEPT = 16;
/** Candidates that came before their offer, per connection, and connections that they are kept for. */
const EARLY_CANDIDATES = 32;
const EARLY_CONNECTIONS = 256;
const CLOSE_TIMEOUT_MS = 4000;

type Open = Extract<ControlToMedia, { type: 'session.open' }>;
type Offer = Extract<ControlToMedia, { type: 'connection.offer' }>;
type Relay = Extract<ControlToMedia, { type: 'connection.relay' }>;

/** All sessions and connections of one media thread: obeys the control thread's messages, hands the engine's chunks on. */
export class MediaServer {
  readonly #clock: Clock;
  readonly #codecs: NativeCodecs;
  readonly #options: MediaOptions;
  readonly #sinks: MediaSinks;
  readonly #log: Logger;
  readonly #judge: VoiceJudge;
  readonly #sessions = new Map<string, MediaSession>();
  readonly #closed = new Map<string, MediaSession>();
  readonly #droppedMemory = new DroppedMemory();
  readonly #early = new Map<string, (IceCandidate | null)[]>();
  readonly #earlyMedia: EarlyMedia;
  readonly #relays = new Map<string, RelayPeer>();
  /** Of sessions that are gone. */
  #past: MediaStats = NO_STATS;
  #statsTimer: Timer | null = null;
  #draining: Promise<void> | null = null;

  constructor(deps: { readonly clock: Clock; readonly codecs: NativeCodecs; readonly options: MediaOptions; readonly sinks: MediaSinks; readonly log: Logger; readonly judge?: VoiceJudge }) {
    this.#clock = deps.clock;
    this.#codecs = deps.codecs;
    this.#options = deps.options;
    this.#sinks = deps.sinks;
    this.#log = deps.log;
    this.#judge = deps.judge ?? new VoiceThread(deps.log);
    this.#earlyMedia = new EarlyMedia(deps.clock);
    this.#scheduleStats();
  }

  /** Every chunk's slot is taken over here, whatever becomes of it. */
  fromEngine(event: EngineToMedia): void {
    const session = this.#sessions.get(event.sessionId) ?? this.#closed.get(event.sessionId);
    if (session !== undefined) session.media(event);
    else if (!this.#earlyMedia.keep(event)) this.#log.warn({ sessionId: event.sessionId, type: event.type }, 'media of an unknown session');
  }

  fromControl(message: ControlToMedia): void {
    switch (message.type) {
      case 'session.open':
        return this.#open(message);
      case 'session.close':
        void this.#closeSession(message.sessionId, message.reason);
        return;
      case 'connection.offer':
        void this.#offer(message);
        return;
      case 'connection.candidate':
        return this.#candidate(message.sessionId, message.connectionId, message.candidate);
      case 'connection.relay':
        return this.#relay(message);
      case 'connection.keyframe':
        return this.#sessions.get(message.sessionId)?.keyframeNeeded();
      case 'connection.close':
        void this.#peer(message.sessionId, message.connectionId)?.close();
        return;
      case 'connection.video':
        return this.#sessions.get(message.sessionId)?.see(message.connectionId, message.data);
      case 'connection.voice':
        return this.#sessions.get(message.sessionId)?.hear(message.connectionId, 'pcm16', message.data);
      case 'relay.taken':
        return this.#relays.get(key(message.sessionId, message.connectionId))?.taken(message.count);
      case 'channel.send':
        this.#peer(message.sessionId, message.connectionId)?.sendText(message.channel, message.text);
        return;
      case 'channel.inject':
        return this.#sessions.get(message.sessionId)?.receive(message.connectionId, message.channel, message.text);
      case 'media.drain':
        void this.drain();
        return;
    }
  }

  get stats(): MediaStats {
    let stats = this.#past;
    for (const session of this.#sessions.values()) stats = addCounters(stats, session);
    const connections = [...this.#sessions.values()].reduce((sum, session) => sum + session.connections.size, 0);
    const relayDropped = [...this.#relays.values()].reduce((sum, relay) => sum + relay.dropped, this.#past.relayDropped ?? 0);
    return { ...stats, sessions: this.#sessions.size, connections, relayDropped, voiceRestarts: this.#judge.restarts };
  }

  /** Ends every session in order and says so with `media.drained`. Idempotent. */
  drain(): Promise<void> {
    this.#draining ??= this.#drain();
    return this.#draining;
  }

  async #drain(): Promise<void> {
    await Promise.all([...this.#sessions.keys()].map((sessionId) => this.#closeSession(sessionId, 'drained')));
    await this.#judge.close();
    this.#statsTimer?.cancel();
    this.#earlyMedia.close();
    this.#sinks.toControl({ type: 'media.stats', stats: this.stats });
    this.#sinks.toControl({ type: 'media.drained' });
  }

  #open(message: Open): void {
    const { sessionId, channels, format, stamp, voice = null, takesVideo, from90k = 0, stopped = false } = message;
    if (this.#draining !== null || this.#sessions.has(sessionId)) {
      this.#log.warn({ sessionId, draining: this.#draining !== null }, 'session not opened');
      return;
    }
    const { bitrate } = this.#options;
    this.#closed.delete(sessionId);
    this.#sessions.set(
      sessionId,
      new MediaSession({
        sessionId,
        channels,
        format,
        stamped: stamp,
        clock: this.#clock,
        rtp: new RtpClock(this.#clock.now()),
        pictureEncoder: new this.#codecs.VpxEncoder({ width: format.width, height: format.height, framesPerSecond: Math.round(format.framesPerSecond), bitrate: bitrate.start }),
        soundEncoder: new this.#codecs.OpusEncoder({ sampleRate: opusRate(format.audioSampleRate), channels: 1, bitrate: bitrate.audio }),
        sinks: this.#sinks,
        options: this.#options,
        log: this.#log.child({ sessionId }),
        voice,
        judge: this.#judge,
        from90k,
        stopped,
        incoming: takesVideo === undefined ? null : { decoder: new this.#codecs.VpxDecoder(), framesPerChunk: takesVideo.framesPerChunk },
      }),
    );
    for (const event of this.#earlyMedia.take(sessionId)) this.fromEngine(event);
  }

  async #closeSession(sessionId: string, reason: string): Promise<void> {
    const session = this.#sessions.get(sessionId);
    if (session === undefined) return;
    this.#sessions.delete(sessionId);
    this.#closed.set(sessionId, session);
    if (this.#closed.size > CLOSED_KEPT) this.#forget(this.#closed.keys().next().value!);
    this.#past = addCounters(this.#past, session);
    this.#log.debug({ sessionId, reason }, 'session closes');
    this.#tellUsage(session);
    let watchdog: NodeJS.Timeout | undefined;
    const bound = new Promise<'late'>((resolve) => (watchdog = setTimeout(resolve, CLOSE_TIMEOUT_MS, 'late')));
    if ((await Promise.race([session.close(), bound])) === 'late') this.#log.error({ sessionId }, 'connections of a session did not close in time');
    clearTimeout(watchdog);
  }

  #forget(sessionId: string): void {
    const session = this.#closed.get(sessionId);
    this.#closed.delete(sessionId);
    if (session !== undefined) this.#droppedMemory.dropped(...session.buffers);
  }

  async #offer({ sessionId, connectionId, sdp, drives = true, speaks = drives }: Offer): Promise<void> {
    try {
      const session = this.#sessionFor(sessionId);
      const peer = new WeriftPeer({
        connectionId,
        options: this.#options,
        events: this.#eventsFor(session, connectionId),
        clock: this.#clock,
        rtp: session.rtp,
        hears: speaks && session.takesVoice,
        sees: drives && session.takesVideo,
        log: this.#log,
        failed: (error) => this.#connectionFailed(sessionId, connectionId, error),
      });
      session.attach(peer, drives, speaks);
      this.#sinks.toControl({ type: 'connection.state', sessionId, connectionId, state: 'connecting' });
      try {
        const answer = await peer.answer(sdp);
        this.#sinks.toControl({ type: 'connection.answer', sessionId, connectionId, sdp: answer });
        for (const candidate of this.#takeEarly(sessionId, connectionId)) await peer.addCandidate(candidate);
      } catch (error) {
        await peer.close();
        throw error;
      }
    } catch (error) {
      this.#takeEarly(sessionId, connectionId);
      this.#connectionFailed(sessionId, connectionId, error);
    }
  }

  #relay({ sessionId, connectionId, drives = true, speaks = drives }: Relay): void {
    try {
      const session = this.#sessionFor(sessionId);
      const peer = new RelayPeer({
        sessionId,
        connectionId,
        backlog: this.#options.limits.relayBacklog,
        toControl: (message) => this.#sinks.toControl(message),
        events: this.#eventsFor(session, connectionId),
      });
      session.attach(peer, drives, speaks);
      this.#relays.set(key(sessionId, connectionId), peer);
      peer.open();
    } catch (error) {
      this.#connectionFailed(sessionId, connectionId, error);
    }
  }

  /** @throws {SegueError} where no further connection can be had. */
  #sessionFor(sessionId: string): MediaSession {
    if (this.#draining !== null) throw new SegueError('draining', 'the server drains');
    const session = this.#sessions.get(sessionId);
    if (session === undefined) throw new SegueError('session_not_found', `no session ${sessionId}`);
    const limit = this.#options.limits.maxConnectionsPerSession;
    if (session.connections.size >= limit) throw new SegueError('conflict', `a session may have ${limit} connections`);
    return session;
  }

  #eventsFor(session: MediaSession, connectionId: string): PeerEvents {
    return {
      state: (state) => {
        session.peerState(connectionId, state);
        if (state === 'closed') this.#forgetRelay(session.sessionId, connectionId);
        this.#sinks.toControl({ type: 'connection.state', sessionId: session.sessionId, connectionId, state });
      },
      message: (channel, data) => session.receive(connectionId, channel, data),
      sound: (packet) => session.hear(connectionId, 'opus', packet),
      picture: (frame) => session.see(connectionId, frame),
      keyframeNeeded: () => session.keyframeNeeded(),
      estimated: (bitsPerSecond) => session.estimated(connectionId, bitsPerSecond),
      lost: (fraction) => session.lost(connectionId, fraction),
    };
  }

  #forgetRelay(sessionId: string, connectionId: string): void {
    const relay = this.#relays.get(key(sessionId, connectionId));
    if (relay === undefined) return;
    this.#relays.delete(key(sessionId, connectionId));
    this.#past = { ...this.#past, relayDropped: (this.#past.relayDropped ?? 0) + relay.dropped };
  }

  #connectionFailed(sessionId: string, connectionId: string, error: unknown): void {
    const body = error instanceof SegueError ? error : new SegueError('internal', 'the connection failed', { cause: error });
    if (!(error instanceof SegueError)) this.#log.error({ err: error, sessionId, connectionId }, 'connection failed');
    this.#sinks.toControl({ type: 'connection.failed', sessionId, connectionId, error: body.toBody() });
  }

  #peer(sessionId: string, connectionId: string): Peer | undefined {
    return this.#sessions.get(sessionId)?.connections.get(connectionId)?.peer;
  }

  #candidate(sessionId: string, connectionId: string, candidate: IceCandidate | null): void {
    const peer = this.#peer(sessionId, connectionId);
    if (peer !== undefined) {
      void peer.addCandidate(candidate);
      return;
    }
    const id = key(sessionId, connectionId);
    const early = this.#early.get(id) ?? [];
    if (early.length < EARLY_CANDIDATES) early.push(candidate);
    this.#early.set(id, early);
    if (this.#early.size > EARLY_CONNECTIONS) this.#early.delete(this.#early.keys().next().value!);
  }

  #takeEarly(sessionId: string, connectionId: string): (IceCandidate | null)[] {
    const early = this.#early.get(key(sessionId, connectionId)) ?? [];
    this.#early.delete(key(sessionId, connectionId));
    return early;
  }

  #tellUsage({ sessionId, counters }: MediaSession): void {
    const sentBytes = counters.takeChangedBytes();
    if (sentBytes !== null) this.#sinks.toControl({ type: 'media.usage', sessionId, sentBytes });
  }

  #scheduleStats(): void {
    this.#statsTimer = this.#clock.schedule(this.#clock.now() + STATS_INTERVAL_MS, () => {
      let lipSyncMaxMs = 0;
      let lateMaxMs = 0;
      for (const session of this.#sessions.values()) {
        this.#tellUsage(session);
        const maxima = session.counters.takeMaxima();
        lipSyncMaxMs = Math.max(lipSyncMaxMs, maxima.lipSyncMs);
        lateMaxMs = Math.max(lateMaxMs, maxima.lateMs);
      }
      this.#sinks.toControl({ type: 'media.stats', stats: { ...this.stats, lipSyncMaxMs, lateMaxMs } });
      this.#scheduleStats();
    });
  }
}

function key(sessionId: string, connectionId: string): string {
  return `${sessionId} ${connectionId}`;
}

function opusRate(sampleRate: number): 8000 | 12000 | 16000 | 24000 | 48000 {
  if (sampleRate === 8000 || sampleRate === 12000 || sampleRate === 16000 || sampleRate === 24000 || sampleRate === 48000) return sampleRate;
  throw new TypeError(`Opus takes 8, 12, 16, 24 or 48 kHz, got ${sampleRate}`);
}
