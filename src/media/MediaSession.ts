import { randomUUID } from 'node:crypto';
import type { Clock } from '../observe/clock.ts';
import { SegueError } from '../protocol/errors.ts';
import type { ChannelLabel, HeldPosition } from '../streams/messages.ts';
import type { MediaEvent } from '../streams/media_events.ts';
import { frameDuration90k } from '../streams/media_time.ts';
import { SessionWords } from '../streams/session_words.ts';
import { ProvisionalHold } from '../streams/ProvisionalHold.ts';
import { SharedPool } from '../streams/shared_pool.ts';
import { ChannelGate, type FencingRequest } from './ChannelGate.ts';
import { EngineEpoch } from './FenceEpoch.ts';
import { HeldInput } from './HeldInput.ts';
import type { Peer, PeerState } from './Peer.ts';
import { PicturePump, type LeavingPicture } from './PicturePump.ts';
import { PresentedTracker } from './PresentedTracker.ts';
import type { RtpClock } from './RtpClock.ts';
import { MediaConnections } from './MediaConnections.ts';
import type { MediaConnection, MediaSessionDeps } from './media_session_deps.ts';
import { SessionCamera } from './SessionCamera.ts';
import { SessionCounters } from './SessionCounters.ts';
import { SessionFence } from './SessionFence.ts';
import { SessionNotices } from './SessionNotices.ts';
import { SoundPump, type LeavingSound } from './SoundPump.ts';
import { Timeline } from './Timeline.ts';
import { SessionVoices } from './voice/SessionVoices.ts';
import type { VoiceCodec } from './voice/voice_messages.ts';
import type { VoiceAction } from './voice/VoicePolicy.ts';


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
  readonly #notices: SessionNotices;
  /** Of the baseline without a fence; else null. */
  readonly #engineEpoch: EngineEpoch | null;
  readonly #gate: ChannelGate;
  readonly #input: HeldInput;
  readonly #peers: MediaConnections;
  readonly #fence: SessionFence;
  readonly #hold: ProvisionalHold;
  readonly #voices: SessionVoices | null;
  readonly #camera: SessionCamera | null;
  /** Paused or interrupted, until somebody asks for something that flows. */
  #stopped: boolean;
  #closed = false;

  constructor(deps: MediaSessionDeps) {
    this.sessionId = deps.sessionId;
    this.#deps = deps;
    this.#clock = deps.clock;
    this.#words = new SessionWords(deps.channels.words);
    this.#videoPool = SharedPool.attach(deps.channels.video);
    this.#audioPool = SharedPool.attach(deps.channels.audio);
    this.#stopped = deps.stopped === true;
    this.#peers = new MediaConnections({
      bitrate: deps.options.bitrate,
      tune: (bitsPerSecond) => this.#closed || deps.pictureEncoder.setBitrate(bitsPerSecond),
      watched: (watched) => {
        if (this.#closed) return;
        this.#sounds.setHeard(watched);
        this.#pictures.setWatched(watched);
      },
    });
    this.#presented = new PresentedTracker(this.#words.epoch, frameDuration90k(deps.format), deps.from90k);
    this.#notices = new SessionNotices({ clock: deps.clock, sessionId: this.sessionId, sinks: deps.sinks, rtp: deps.rtp, presented: this.#presented, connections: this.#peers.all });
    this.#fence = new SessionFence({
      clock: deps.clock,
      words: this.#words,
      presented: this.#presented,
      counters: this.counters,
      notices: this.#notices,
      stopped: () => {
        this.#hold.end();
        this.#sounds.fence();
        this.#pictures.fence();
      },
    });
    this.#gate = new ChannelGate(deps.options.limits);
    this.#input = new HeldInput(deps.clock, this.#words, () => deps.sinks.toEngine({ type: 'media.action', sessionId: this.sessionId }));
    this.#hold = new ProvisionalHold(deps.clock, () => this.#pictures.setOnHold(false));
    this.#voices =
      deps.voice?.enabled !== true
        ? null
        : new SessionVoices({
            clock: deps.clock,
            options: deps.voice,
            judge: deps.judge,
            flow: () => (this.#stopped || !this.#peers.watched ? 'stopped' : this.#hold.active ? 'held' : 'flows'),
            act: (action) => this.#voiceActs(action),
            deaf: (connectionId) => this.#trouble(connectionId, new SegueError('engine_unavailable', 'voices are not heard at the moment')),
            speaking: (speaking) => deps.sinks.toControl({ type: 'voice.speaking', sessionId: this.sessionId, speaking }),
          });
    this.#camera =
      deps.incoming == null
        ? null
        : new SessionCamera({
            clock: deps.clock,
            ...deps.incoming,
            format: deps.format,
            chunk: (frames) => deps.sinks.toEngine({ type: 'media.frames', sessionId: this.sessionId, frames }),
            keyframeNeeded: (connectionId) => this.#peers.all.get(connectionId)?.peer.askForKeyframe(),
            failed: (connectionId, message) => this.#trouble(connectionId, new SegueError('bad_request', message)),
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

  get connections(): ReadonlyMap<string, MediaConnection> {
    return this.#peers.all;
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
    return this.#camera?.dropped ?? 0;
  }

  get takesVideo(): boolean {
    return this.#camera !== null;
  }

  get takesVoice(): boolean {
    return this.#voices !== null;
  }

  /** Takes over the slot of a chunk, whatever becomes of it. */
  media(event: MediaEvent): void {
    if (event.type === 'media.recall') {
      this.#sounds.recall();
      this.#pictures.recall();
      return;
    }
    if (event.type !== 'media.chunk') return; // the format came with `session.open`; a completed stream plays out what is queued
    this.#fence.observe();
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

  attach(peer: Peer, drives: boolean, speaks = drives): void {
    if (this.#closed) throw new SegueError('session_closed', `session ${this.sessionId} is closed`);
    this.#peers.attach(peer, drives, speaks);
  }

  peerState(connectionId: string, state: PeerState): void {
    if (state === 'connected') {
      this.#notices.newcomer();
      this.#pictures.requestKeyframe();
    }
    if (state === 'closed') {
      this.#gate.forget(connectionId);
      this.#voices?.left(connectionId);
      this.#peers.gone(connectionId);
    }
    this.#peers.refresh();
  }

  keyframeNeeded(): void {
    this.#pictures.requestKeyframe();
  }

  estimated(connectionId: string, bitsPerSecond: number): void {
    this.#peers.estimated(connectionId, bitsPerSecond);
  }

  lost(connectionId: string, fraction: number): void {
    this.#peers.lost(connectionId, fraction);
  }

  /** A message of a data channel, a WebSocket or REST (`connectionId` null): all the same from here on. */
  receive(connectionId: string | null, channel: ChannelLabel, data: string | Uint8Array): void {
    this.#receive(connectionId, channel, data, this.#voices);
  }

  /** @param voices told what is asked for; null where a voice asks. */
  #receive(connectionId: string | null, channel: ChannelLabel, data: string | Uint8Array, voices: SessionVoices | null): void {
    if (this.#closed) return;
    const now = this.#clock.now();
    const drives = connectionId === null || this.#peers.all.get(connectionId)?.drives === true;
    const admitted = this.#gate.admit(connectionId, channel, data, now);
    switch (admitted.kind) {
      case 'fence':
        if (drives) this.#fenceFor(connectionId, channel, admitted.request, data as string, voices);
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
        if (drives && this.#fence.actsFor(admitted.request.id)) {
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
          this.#peers.all.get(connectionId)?.peer.sendText(channel, JSON.stringify(reply));
        }
        return;
      case 'ignore':
        this.counters.messagesRefused++;
        return;
    }
  }

  #position(message: { readonly videoRtp?: number | undefined; readonly audioRtp?: number | undefined }, now: number): void {
    this.#fence.observe();
    if (this.#presented.report(message, now)) this.#notices.presented();
  }

  #forward(connectionId: string | null, channel: ChannelLabel, text: string, fencedEpoch: number | null = null, held: HeldPosition | null = null): void {
    this.#deps.sinks.toControl({ type: 'channel.message', sessionId: this.sessionId, connectionId, channel, text, fencedEpoch, held });
  }

  /** A VP8 frame of a driver's camera; null: one was lost. */
  see(connectionId: string, frame: Uint8Array | null): void {
    if (!this.#closed && this.#peers.all.get(connectionId)?.drives === true) this.#camera?.see(connectionId, frame);
  }

  #trouble(connectionId: string, error: SegueError): void {
    this.#deps.sinks.toControl({ type: 'connection.trouble', sessionId: this.sessionId, connectionId, error: error.toBody() });
  }

  /** A packet of a connection's microphone. Whoever may not speak isn't heard. */
  hear(connectionId: string, codec: VoiceCodec, data: Uint8Array): void {
    if (!this.#closed && this.#peers.all.get(connectionId)?.speaks === true) this.#voices?.hear(connectionId, codec, data);
  }

  /** As if it had come by REST: fenced here, answered and written down there. */
  #voiceActs(action: VoiceAction): void {
    this.#receive(null, 'control', JSON.stringify({ type: action, id: `voice.${randomUUID()}` }), null);
  }

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

  /** Raises the word before anyone is told. A repeat on `input` ends here; on `control` it goes on, for it waits for its answer. */
  #fenceFor(connectionId: string | null, channel: ChannelLabel, request: FencingRequest, text: string, voices: SessionVoices | null): void {
    if (!this.#fence.actsFor(request.id)) {
      if (channel !== 'input') this.#forward(connectionId, channel, text);
      return;
    }
    this.#fence.observe();
    this.#stopped = request.type === 'interrupt';
    voices?.asked('stops');
    const { epoch, held } = this.#fence.raise(request);
    this.#forward(connectionId, channel, text, epoch, held);
  }

  #sendPicture({ encoded, frame, repeat, rtp, atMs }: LeavingPicture): void {
    this.#fence.observe();
    const now = this.#clock.now();
    if (!repeat) this.#notices.announce(frame, rtp, atMs);
    // A held picture belongs to the present, whatever epoch made it: it was seen before the fence.
    const epoch = repeat ? this.#words.epoch : frame.epoch;
    for (const { peer } of this.#peers.all.values()) {
      const stale = epoch < this.#words.epoch;
      this.counters.sent(peer.sendPicture({ data: encoded.data, keyframe: encoded.keyframe, rtp, epoch }), stale);
    }
    this.counters.pictureLeft(repeat, encoded.keyframe);
    if (!repeat) this.counters.pictureLateMs(now - atMs);
    const moved = this.#presented.frameSent({ rtp, epoch: frame.epoch, start90k: frame.start90k, end90k: frame.end90k, chunk: frame.chunk, atMs: now });
    if (!repeat) this.#notices.left(frame, moved);
  }

  #sendSound({ data, rtp, epoch, start90k, atMs }: LeavingSound): void {
    for (const { peer } of this.#peers.all.values()) {
      // Silence is of no epoch: only a server without a fence tells it apart.
      const stale = start90k !== null && epoch < this.#words.epoch;
      this.counters.sent(peer.sendSound({ data, rtp, epoch }), stale);
    }
    this.counters.soundLateMs(this.#clock.now() - atMs);
    if (start90k !== null) this.#presented.soundSent({ rtp, epoch, start90k });
  }

  #encoderFailed(error: Error, fatal: boolean): void {
    this.#deps.log.error({ err: error, fatal }, 'picture encoder failed');
    if (!fatal) return;
    const body = new SegueError('internal', 'the picture encoder failed').toBody();
    for (const { peer } of [...this.#peers.all.values()]) {
      this.#deps.sinks.toControl({ type: 'connection.failed', sessionId: this.sessionId, connectionId: peer.connectionId, error: body });
      void peer.close();
    }
  }

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
      this.#camera?.close();
      this.#pictures.close();
      this.#sounds.close();
      this.#input.close();
      this.#notices.close();
    }
    await Promise.all([...this.#peers.all.values()].map(({ peer }) => peer.close()));
    this.#peers.all.clear();
  }
}
