import { randomUUID } from 'node:crypto';
import type { Clock } from '../observe/clock.ts';
import type { Logger } from '../observe/log.ts';
import type { FrameNotice } from '../protocol/channel.ts';
import type { VoiceOptions } from '../protocol/session_voice.ts';
import { SegueError } from '../protocol/errors.ts';
import type { ChannelLabel, HeldPosition, MediaToControl, MediaToEngine, SessionChannels } from '../streams/messages.ts';
import type { ChunkEvents, MediaEvent } from '../streams/media_events.ts';
import { frameDuration90k, type MediaFormat, type MediaTime90k } from '../streams/media_time.ts';
import { SessionWords } from '../streams/session_words.ts';
import { ProvisionalHold } from '../streams/ProvisionalHold.ts';
import { SharedPool } from '../streams/shared_pool.ts';
import { BitrateControl } from './BitrateControl.ts';
import { ChannelGate, type FencingRequest } from './ChannelGate.ts';
import { EngineEpoch } from './FenceEpoch.ts';
import { HeldInput } from './HeldInput.ts';
import type { OpusEncoder, VpxDecoder, VpxEncoder } from './native.ts';
import type { MediaOptions } from './options.ts';
import type { Peer, PeerState } from './Peer.ts';
import { PicturePump, type LeavingPicture } from './PicturePump.ts';
import { PresentedTracker } from './PresentedTracker.ts';
import type { RtpClock } from './RtpClock.ts';
import { SessionCounters } from './SessionCounters.ts';
import { SoundPump, type LeavingSound } from './SoundPump.ts';
import { Timeline } from './Timeline.ts';
import { VideoIntake } from './VideoIntake.ts';
import { SessionVoices } from './voice/SessionVoices.ts';
import type { VoiceCodec } from './voice/voice_messages.ts';
import type { VoiceJudge } from './voice/VoiceJudge.ts';
import type { VoiceAction } from './voice/VoicePolicy.ts';

/** Ids of requests that were acted on here and are remembered, per session. */
const IDS_KEPT = 1024;
/** A notice goes with every change and with every twelfth frame besides. */
const NOTICE_INTERVAL_FRAMES = 12;
const POSITION_INTERVAL_MS = 250;

/** Where a session's messages go; ports in the thread, lists in tests. */
export interface MediaSinks {
  toEngine(message: MediaToEngine): void;
  toControl(message: MediaToControl): void;
}

export interface MediaSessionDeps {
  readonly sessionId: string;
  readonly channels: SessionChannels;
  readonly format: MediaFormat;
  readonly stamped: boolean;
  readonly clock: Clock;
  readonly rtp: RtpClock;
  readonly pictureEncoder: VpxEncoder;
  readonly soundEncoder: OpusEncoder;
  readonly sinks: MediaSinks;
  readonly options: MediaOptions;
  readonly log: Logger;
  /** Absent or null: no voice is heard. */
  readonly voice?: VoiceOptions | null;
  readonly judge: VoiceJudge;
  /** Media time that its story begins with, or goes on from. Absent: 0. */
  readonly from90k?: MediaTime90k;
  /** It comes back paused or interrupted, as its driver had left it. */
  readonly stopped?: boolean;
  /** Absent or null: no video is taken in. */
  readonly incoming?: { readonly decoder: VpxDecoder; readonly framesPerChunk: number } | null;
}

interface Connection {
  readonly peer: Peer;
  readonly drives: boolean;
  readonly speaks: boolean;
}

/**
 * One session on the media thread: fences where the request arrives, lets pictures and sound go in step, encodes them once for all
 * its connections, and knows what the driver has seen. Free of threads and sockets.
 */
export class MediaSession {
  readonly sessionId: string;
  readonly counters = new SessionCounters();
  readonly #deps: MediaSessionDeps;
  readonly #clock: Clock;
  readonly #words: SessionWords;
  readonly #videoPool: SharedPool;
  readonly #audioPool: SharedPool;
  readonly #timeline = new Timeline();
  readonly #pictures: PicturePump;
  readonly #sounds: SoundPump;
  readonly #presented: PresentedTracker;
  /** Of the baseline without a fence; else null. */
  readonly #engineEpoch: EngineEpoch | null;
  readonly #gate: ChannelGate;
  readonly #input: HeldInput;
  readonly #bitrate: BitrateControl;
  readonly #connections = new Map<string, Connection>();
  /** Requests that fenced, held or released: the same id does so once. */
  readonly #actedIds = new Set<string>();
  readonly #hold: ProvisionalHold;
  readonly #voices: SessionVoices | null;
  readonly #intake: VideoIntake | null;
  /** Whose camera is taken in: the driver that sent last. */
  #camera: string | null = null;
  /** Paused or interrupted, until somebody asks for something that flows. */
  #stopped: boolean;
  #noticed: FrameNotice | null = null;
  /** Of the newest fence. */
  #fencedBy: { readonly epoch: number; readonly requestId: string } | null = null;
  #sinceNotice = 0;
  #flowing: number | null = null;
  #toldPosition = { atMs: -Infinity, epoch: -1, sent90k: 0, presented90k: 0 };
  #closed = false;

  constructor(deps: MediaSessionDeps) {
    this.sessionId = deps.sessionId;
    this.#deps = deps;
    this.#clock = deps.clock;
    this.#words = new SessionWords(deps.channels.words);
    this.#videoPool = SharedPool.attach(deps.channels.video);
    this.#audioPool = SharedPool.attach(deps.channels.audio);
    this.#stopped = deps.stopped === true;
    this.#presented = new PresentedTracker(this.#words.epoch, frameDuration90k(deps.format), deps.from90k);
    this.#gate = new ChannelGate(deps.options.limits);
    this.#input = new HeldInput(deps.clock, this.#words, () => deps.sinks.toEngine({ type: 'media.action', sessionId: this.sessionId }));
    this.#bitrate = new BitrateControl(deps.options.bitrate);
    this.#hold = new ProvisionalHold(deps.clock, () => this.#pictures.setOnHold(false));
    this.#voices =
      deps.voice?.enabled !== true
        ? null
        : new SessionVoices({
            clock: deps.clock,
            options: deps.voice,
            judge: deps.judge,
            flow: () => (this.#stopped || !this.#watched ? 'stopped' : this.#hold.active ? 'held' : 'flows'),
            act: (action) => this.#voiceActs(action),
            deaf: (connectionId) => this.#trouble(connectionId, new SegueError('engine_unavailable', 'voices are not heard at the moment')),
            speaking: (speaking) => deps.sinks.toControl({ type: 'voice.speaking', sessionId: this.sessionId, speaking }),
          });
    this.#intake =
      deps.incoming == null
        ? null
        : new VideoIntake({
            clock: deps.clock,
            ...deps.incoming,
            format: deps.format,
            chunk: (frames) => deps.sinks.toEngine({ type: 'media.frames', sessionId: this.sessionId, frames }),
            keyframeNeeded: () => this.#connections.get(this.#camera ?? '')?.peer.askForKeyframe(),
            failed: (message) => this.#trouble(this.#camera ?? '', new SegueError('bad_request', message)),
          });
    this.#engineEpoch = deps.options.fence === 'queue' ? new EngineEpoch(this.#words) : null;
    const shared = { clock: deps.clock, rtp: deps.rtp, words: this.#words, fence: this.#engineEpoch ?? this.#words, timeline: this.#timeline, stamped: deps.stamped };
    this.#pictures = new PicturePump({
      ...shared,
      pool: this.#videoPool,
      format: deps.format,
      encoder: deps.pictureEncoder,
      soundOutMs: () => this.#sounds.nextPacketMs,
      events: {
        anchored: () => deps.sinks.toEngine({ type: 'media.anchored', sessionId: this.sessionId }),
        leave: (picture) => this.#sendPicture(picture),
        failed: (error, fatal) => this.#encoderFailed(error, fatal),
      },
    });
    this.#sounds = new SoundPump({ ...shared, sampleRate: deps.format.audioSampleRate, encoder: deps.soundEncoder, leave: (sound) => this.#sendSound(sound) });
  }

  get connections(): ReadonlyMap<string, Connection> {
    return this.#connections;
  }

  get rtp(): RtpClock {
    return this.#deps.rtp;
  }

  get presented90k(): number {
    return this.#presented.presented90k;
  }

  get sent90k(): number {
    return this.#presented.sent90k;
  }

  get pictures(): PicturePump {
    return this.#pictures;
  }

  get sounds(): SoundPump {
    return this.#sounds;
  }

  /** Packets of voices that were dropped because they could not be judged in time. */
  get voiceDropped(): number {
    return this.#voices?.dropped ?? 0;
  }

  /** VP8 frames of a camera that were dropped before they were decoded. */
  get intakeDropped(): number {
    return this.#intake?.dropped ?? 0;
  }

  get takesVideo(): boolean {
    return this.#intake !== null;
  }

  get takesVoice(): boolean {
    return this.#voices !== null;
  }

  // ------------------------------------------------------------------ from the engine

  /** Takes over the slot of a chunk, whatever becomes of it. */
  media(event: MediaEvent): void {
    if (event.type === 'media.recall') {
      this.#sounds.recall();
      this.#pictures.recall();
      return;
    }
    if (event.type !== 'media.chunk') return; // the format came with `session.open`; a completed stream plays out what is queued
    this.#observeEpoch();
    if (this.#engineEpoch?.follow(event.epoch) === true) {
      this.#sounds.fence();
      this.#pictures.fence();
    }
    if (event.kind === 'video') {
      this.#pictures.push(event, this.#videoPool);
      return;
    }
    if (!this.#closed) {
      const bytes = this.#audioPool.bytes(event.slot);
      this.#sounds.push(event.start90k, event.epoch, new Int16Array(bytes.buffer, bytes.byteOffset, Math.min(event.samples, bytes.byteLength >> 1)), event.revision);
    }
    this.#audioPool.release(event.slot);
  }

  // ------------------------------------------------------------------ connections

  attach(peer: Peer, drives: boolean, speaks = drives): void {
    if (this.#closed) throw new SegueError('session_closed', `session ${this.sessionId} is closed`);
    this.#connections.set(peer.connectionId, { peer, drives, speaks });
  }

  peerState(connectionId: string, state: PeerState): void {
    if (state === 'connected') {
      this.#noticed = null; // the newcomer has to be told what it sees
      this.#pictures.requestKeyframe();
    }
    if (state === 'closed') {
      this.#connections.delete(connectionId);
      this.#gate.forget(connectionId);
      this.#voices?.left(connectionId);
      this.#retune(this.#bitrate.remove(connectionId));
    }
    this.#updateWatched();
  }

  keyframeNeeded(): void {
    this.#pictures.requestKeyframe();
  }

  estimated(connectionId: string, bitsPerSecond: number): void {
    this.#retune(this.#bitrate.estimated(connectionId, bitsPerSecond));
  }

  lost(connectionId: string, fraction: number): void {
    this.#retune(this.#bitrate.lost(connectionId, fraction));
  }

  #watched = false;
  #updateWatched(): void {
    const watched = [...this.#connections.values()].some(({ peer }) => peer.state === 'connected');
    if (watched === this.#watched || this.#closed) return;
    this.#watched = watched;
    this.#sounds.setHeard(watched);
    this.#pictures.setWatched(watched);
  }

  #retune(bitrate: number | null): void {
    if (bitrate !== null && !this.#closed) this.#deps.pictureEncoder.setBitrate(bitrate);
  }

  // ------------------------------------------------------------------ messages

  /** A message of a data channel, a WebSocket or REST (`connectionId` null): all the same from here on. */
  receive(connectionId: string | null, channel: ChannelLabel, data: string | Uint8Array): void {
    this.#receive(connectionId, channel, data, this.#voices);
  }

  /** @param voices told what is asked for; null where a voice asks. */
  #receive(connectionId: string | null, channel: ChannelLabel, data: string | Uint8Array, voices: SessionVoices | null): void {
    if (this.#closed) return;
    const now = this.#clock.now();
    const drives = connectionId === null || this.#connections.get(connectionId)?.drives === true;
    const admitted = this.#gate.admit(connectionId, channel, data, now);
    switch (admitted.kind) {
      case 'fence':
        if (drives) this.#fence(connectionId, channel, admitted.request, data as string, voices);
        else this.#forward(connectionId, channel, data as string);
        return;
      case 'input':
        if (!drives) return;
        if (admitted.message.type === 'action') this.#input.receive(connectionId ?? '', admitted.message);
        else if (admitted.message.type === 'position') this.#position(admitted.message, now);
        else {
          voices?.asked('flows'); // a seamless redirect
          this.#forward(connectionId, channel, data as string);
        }
        return;
      case 'hold':
        if (drives && this.#actsFor(admitted.request.id)) {
          voices?.asked(admitted.request.type);
          this.#setOnHold(admitted.request);
        }
        this.#forward(connectionId, channel, data as string);
        return;
      case 'forward':
        if (drives) this.#flow(admitted.type, voices);
        this.#forward(connectionId, channel, data as string);
        return;
      case 'refuse':
        this.counters.messagesRefused++;
        if (connectionId !== null) {
          const reply = { type: 'error', ...(admitted.re === null ? {} : { re: admitted.re }), error: admitted.error };
          this.#connections.get(connectionId)?.peer.sendText(channel, JSON.stringify(reply));
        }
        return;
      case 'ignore':
        this.counters.messagesRefused++;
        return;
    }
  }

  #position(message: { readonly videoRtp?: number | undefined; readonly audioRtp?: number | undefined }, now: number): void {
    this.#observeEpoch();
    if (this.#presented.report(message, now)) this.#reportPresented();
  }

  #forward(connectionId: string | null, channel: ChannelLabel, text: string, fencedEpoch: number | null = null, held: HeldPosition | null = null): void {
    this.#deps.sinks.toControl({ type: 'channel.message', sessionId: this.sessionId, connectionId, channel, text, fencedEpoch, held });
  }

  // ------------------------------------------------------------------ a camera

  /** A VP8 frame of a driver's camera; null: one was lost. */
  see(connectionId: string, frame: Uint8Array | null): void {
    if (this.#closed || this.#intake === null || this.#connections.get(connectionId)?.drives !== true) return;
    // Another stream begins with a keyframe of its own.
    const another = this.#camera !== null && this.#camera !== connectionId;
    this.#camera = connectionId;
    if (another) this.#intake.push(null);
    this.#intake.push(frame);
  }

  #trouble(connectionId: string, error: SegueError): void {
    this.#deps.sinks.toControl({ type: 'connection.trouble', sessionId: this.sessionId, connectionId, error: error.toBody() });
  }

  // ------------------------------------------------------------------ voices

  /** A packet of a connection's microphone. Whoever may not speak isn't heard. */
  hear(connectionId: string, codec: VoiceCodec, data: Uint8Array): void {
    if (!this.#closed && this.#connections.get(connectionId)?.speaks === true) this.#voices?.hear(connectionId, codec, data);
  }

  /** As if it had come by REST: fenced here, answered and written down there. */
  #voiceActs(action: VoiceAction): void {
    this.#receive(null, 'control', JSON.stringify({ type: action, id: `voice.${randomUUID()}` }), null);
  }

  // ------------------------------------------------------------------ what stops without a fence

  #setOnHold({ type, id }: { readonly type: 'hold' | 'release'; readonly id: string }): void {
    if (type === 'hold') this.#hold.begin(id);
    else this.#hold.end();
    this.#pictures.setOnHold(this.#hold.active);
  }

  /** Whoever asks for something else that flows wants to see it: it ends a pause here as it does on the other threads. */
  #flow(type: string | null, voices: SessionVoices | null): void {
    const flows = type === 'redirect' || type === 'blend';
    if (type === 'pause' || type === 'resume' || flows) this.#stopped = type === 'pause';
    voices?.asked(type === 'pause' || type === 'resume' ? 'stops' : flows ? 'flows' : type === 'draft' ? 'draft' : 'other');
    if (type === 'pause' || type === 'resume') {
      this.#hold.end();
      this.#pictures.setPaused(type === 'pause');
      this.#pictures.setOnHold(false);
    } else if (flows) this.#pictures.setPaused(false);
  }

  /** False for an id that was acted on before. */
  #actsFor(id: string): boolean {
    if (this.#actedIds.has(id)) return false;
    this.#actedIds.add(id);
    if (this.#actedIds.size > IDS_KEPT) this.#actedIds.delete(this.#actedIds.values().next().value!);
    return true;
  }

  // ------------------------------------------------------------------ the fence

  /** Raises the word before anyone is told. A repeat on `input` ends here; on `control` it goes on, for it waits for its answer. */
  #fence(connectionId: string | null, channel: ChannelLabel, request: FencingRequest, text: string, voices: SessionVoices | null): void {
    if (!this.#actsFor(request.id)) {
      if (channel !== 'input') this.#forward(connectionId, channel, text);
      return;
    }
    this.#observeEpoch();
    this.#stopped = request.type === 'interrupt';
    voices?.asked('stops');
    const epoch = this.#words.raiseEpoch();
    this.#fencedBy = { epoch, requestId: request.id };
    const held = this.#stop(epoch, { videoRtp: request.heldVideoRtp, audioRtp: request.heldAudioRtp });
    this.#forward(connectionId, channel, text, epoch, held);
  }

  /** Somebody else may have raised the word (a request that doesn't pass here): the same stop then. */
  #observeEpoch(): void {
    const epoch = this.#words.epoch;
    if (epoch !== this.#presented.epoch) this.#stop(epoch, {});
  }

  #stop(epoch: number, held: { readonly videoRtp?: number | undefined; readonly audioRtp?: number | undefined }): HeldPosition {
    const position = this.#presented.fence(epoch, held, this.#clock.now());
    this.counters.fences++;
    this.#hold.end();
    this.#sounds.fence();
    this.#pictures.fence();
    return position;
  }

  // ------------------------------------------------------------------ sending

  #sendPicture({ encoded, frame, repeat, rtp, atMs }: LeavingPicture): void {
    this.#observeEpoch();
    const now = this.#clock.now();
    if (!repeat) this.#notice(frame, rtp, atMs);
    // A held picture belongs to the present, whatever epoch made it: it was seen before the fence.
    const epoch = repeat ? this.#words.epoch : frame.epoch;
    for (const { peer } of this.#connections.values()) {
      const stale = epoch < this.#words.epoch;
      this.counters.sent(peer.sendPicture({ data: encoded.data, keyframe: encoded.keyframe, rtp, epoch }), stale);
    }
    this.counters.pictureLeft(repeat, encoded.keyframe);
    if (!repeat) this.counters.pictureLateMs(now - atMs);
    const moved = this.#presented.frameSent({ rtp, epoch: frame.epoch, start90k: frame.start90k, end90k: frame.end90k, chunk: frame.chunk, atMs: now });
    if (moved && !repeat) this.#reportPresented();
    if (!repeat && this.#flowing !== frame.epoch) {
      this.#flowing = frame.epoch;
      this.#deps.sinks.toControl({ type: 'media.flowing', sessionId: this.sessionId, epoch: frame.epoch, media90k: frame.start90k });
    }
    // Also while it stands, and its last picture is repeated: else the last that was seen of it would never be told.
    this.#tellPosition(now);
  }

  /** Once in a while, where it has changed; of an epoch that something has come of: before, the story may have been gone back in. */
  #tellPosition(now: number): void {
    const { epoch, sent90k, presented90k } = this.#presented;
    const told = this.#toldPosition;
    if (epoch !== this.#flowing || now - told.atMs < POSITION_INTERVAL_MS || (epoch === told.epoch && sent90k === told.sent90k && presented90k === told.presented90k)) return;
    this.#toldPosition = { atMs: now, epoch, sent90k, presented90k };
    this.#deps.sinks.toControl({ type: 'media.position', sessionId: this.sessionId, epoch, sent90k, presented90k });
  }

  #notice(frame: LeavingPicture['frame'], rtp: number, atMs: number): void {
    const last = this.#noticed;
    const changed = last === null || bounds(frame.events) || last.epoch !== frame.epoch || last.conditioningVersion !== frame.conditioningVersion || last.actionSequence !== frame.actionSequence;
    if (!changed && ++this.#sinceNotice < NOTICE_INTERVAL_FRAMES) return;
    this.#sinceNotice = 0;
    const notice: FrameNotice = {
      type: 'frame',
      rtp,
      audioRtp: this.#deps.rtp.audio(atMs),
      epoch: frame.epoch,
      conditioningVersion: frame.conditioningVersion,
      actionSequence: frame.actionSequence,
      chunk: frame.chunk,
      frameInChunk: frame.frameInChunk,
      step: frame.step,
      media90k: frame.start90k,
      origin: frame.origin,
      ...(Object.keys(frame.adapterVersions).length === 0 ? {} : { adapterVersions: { ...frame.adapterVersions } }),
      ...(bounds(frame.events) ? { requests: { started: [...frame.events.started], active: [...frame.events.active], completed: [...frame.events.completed] } } : {}),
      ...(last?.epoch !== frame.epoch && this.#fencedBy?.epoch === frame.epoch ? { re: this.#fencedBy.requestId } : {}),
    };
    this.#noticed = notice;
    const text = JSON.stringify(notice);
    for (const { peer } of this.#connections.values()) peer.sendText('state', text);
  }

  #sendSound({ data, rtp, epoch, start90k, atMs }: LeavingSound): void {
    for (const { peer } of this.#connections.values()) {
      // Silence is of no epoch: only a server without a fence tells it apart.
      const stale = start90k !== null && epoch < this.#words.epoch;
      this.counters.sent(peer.sendSound({ data, rtp, epoch }), stale);
    }
    this.counters.soundLateMs(this.#clock.now() - atMs);
    if (start90k !== null) this.#presented.soundSent({ rtp, epoch, start90k });
  }

  #reportPresented(): void {
    this.#deps.sinks.toEngine({ type: 'media.presented', sessionId: this.sessionId, epoch: this.#presented.epoch, media90k: this.#presented.presented90k });
  }

  #encoderFailed(error: Error, fatal: boolean): void {
    this.#deps.log.error({ err: error, fatal }, 'picture encoder failed');
    if (!fatal) return;
    const body = new SegueError('internal', 'the picture encoder failed').toBody();
    for (const { peer } of [...this.#connections.values()]) {
      this.#deps.sinks.toControl({ type: 'connection.failed', sessionId: this.sessionId, connectionId: peer.connectionId, error: body });
      void peer.close();
    }
  }

  // ------------------------------------------------------------------ end

  /** Shared memory that it refers to. */
  get buffers(): readonly SharedArrayBuffer[] {
    return [this.#videoPool.buffer, this.#audioPool.buffer];
  }

  /** Streams end first, then connections: text that was handed over before is flushed. Idempotent. */
  async close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = true;
      this.#hold.end();
      this.#voices?.close();
      this.#intake?.close();
      this.#pictures.close();
      this.#sounds.close();
      this.#input.close();
    }
    await Promise.all([...this.#connections.values()].map(({ peer }) => peer.close()));
    this.#connections.clear();
  }
}

/** Whether a request's effect begins or ends there. */
function bounds({ started, completed }: ChunkEvents): boolean {
  return started.length > 0 || completed.length > 0;
}
