/** A MediaSession on a virtual clock with scripted encoders and a peer that keeps what it was sent. */
import { createLogger } from '../../src/observe/log.ts';
import { VirtualClock } from '../../src/observe/virtual_clock.ts';
import { MediaSession } from '../../src/media/MediaSession.ts';
import type { EncodedPicture, OpusEncoder, VpxDecoder, VpxEncoder } from '../../src/media/native.ts';
import { DEFAULT_MEDIA_OPTIONS, type MediaOptions } from '../../src/media/options.ts';
import type { OutgoingPicture, OutgoingSound, Peer, PeerState, Sent } from '../../src/media/Peer.ts';
import { RtpClock } from '../../src/media/RtpClock.ts';
import type { VoiceJudge, VoiceListener } from '../../src/media/voice/VoiceJudge.ts';
import { voiceInForce, type SessionVoice } from '../../src/protocol/session_voice.ts';
import type { AudioChunk, VideoChunk } from '../../src/streams/media_events.ts';
import type { MediaFormat } from '../../src/streams/media_time.ts';
import type { ChannelLabel, MediaToControl, MediaToEngine } from '../../src/streams/messages.ts';
import { SessionWords } from '../../src/streams/session_words.ts';
import { SharedPool } from '../../src/streams/shared_pool.ts';

export const FORMAT: MediaFormat = { width: 16, height: 32, framesPerSecond: 12, audioSampleRate: 24_000 };
export const FRAME = 7500;
export const FRAME_MS = 1000 / 12;
export const SAMPLES = 2000;

/** Encodes to the picture's first byte, after a latency on the virtual clock. */
export class ScriptedPictureEncoder implements VpxEncoder {
  readonly #clock: VirtualClock;
  latencyMs = 2;
  fails = false;
  closed = false;
  bitrate: number | null = null;
  readonly calls: { readonly atMs: number; readonly content: number; readonly keyframe: boolean }[] = [];
  running = 0;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  encode(pixels: Uint8Array, { keyframe }: { readonly keyframe: boolean }): Promise<EncodedPicture> {
    if (this.closed) throw new Error('closed');
    if (this.running > 0) throw new Error('one call at a time');
    this.running++;
    const content = pixels[0]!;
    this.calls.push({ atMs: this.#clock.now(), content, keyframe });
    return new Promise((resolve, reject) => {
      this.#clock.schedule(this.#clock.now() + this.latencyMs, () => {
        this.running--;
        if (pixels[0] !== content) reject(new Error('the picture changed while it was encoded'));
        else if (this.fails) reject(new Error('scripted failure'));
        else resolve({ data: Uint8Array.of(content), keyframe, encodeMs: this.latencyMs });
      });
    });
  }

  setBitrate(bitsPerSecond: number): void {
    this.bitrate = bitsPerSecond;
  }

  close(): void {
    this.closed = true;
  }
}

/** Passes the samples through as bytes. */
export class ScriptedSoundEncoder implements OpusEncoder {
  encode(pcm: Int16Array): Uint8Array {
    return new Uint8Array(pcm.slice().buffer);
  }
  setBitrate(): void {}
  close(): void {}
}

export type SentPicture = OutgoingPicture & { readonly atMs: number; readonly content: number; readonly wordEpoch: number };
export type SentSound = Omit<OutgoingSound, 'data'> & { readonly atMs: number; readonly samples: Int16Array; readonly wordEpoch: number };

export class KeepingPeer implements Peer {
  readonly connectionId: string;
  readonly #clock: VirtualClock;
  readonly #words: SessionWords;
  state: PeerState = 'connecting';
  readonly pictures: SentPicture[] = [];
  readonly sounds: SentSound[] = [];
  readonly texts: { readonly channel: ChannelLabel; readonly message: Record<string, unknown>; readonly atMs: number; readonly pictures: number }[] = [];
  keyframesAsked = 0;
  onClose: () => void = () => {};

  constructor(connectionId: string, clock: VirtualClock, words: SessionWords) {
    this.connectionId = connectionId;
    this.#clock = clock;
    this.#words = words;
  }

  sendPicture(picture: OutgoingPicture): Sent {
    if (this.state !== 'connected') return { packets: 0, bytes: 0 };
    this.pictures.push({ ...picture, atMs: this.#clock.now(), content: picture.data[0]!, wordEpoch: this.#words.epoch });
    return { packets: 1, bytes: 1 };
  }

  sendSound(sound: OutgoingSound): Sent {
    if (this.state !== 'connected') return { packets: 0, bytes: 0 };
    this.sounds.push({ rtp: sound.rtp, epoch: sound.epoch, atMs: this.#clock.now(), samples: new Int16Array(sound.data.buffer), wordEpoch: this.#words.epoch });
    return { packets: 1, bytes: sound.data.length };
  }

  sendText(channel: ChannelLabel, text: string): boolean {
    this.texts.push({ channel, message: JSON.parse(text) as Record<string, unknown>, atMs: this.#clock.now(), pictures: this.pictures.length });
    return true;
  }

  askForKeyframe(): void {
    this.keyframesAsked++;
  }

  addCandidate(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    if (this.state !== 'closed') {
      this.state = 'closed';
      this.onClose();
    }
    return Promise.resolve();
  }
}

/** Judges what a test tells it to. */
export class ScriptedJudge implements VoiceJudge {
  readonly restarts = 0;
  readonly listeners: VoiceListener[] = [];
  readonly packets: { readonly codec: string; readonly data: Uint8Array }[] = [];
  full = false;

  open(listener: VoiceListener): ReturnType<VoiceJudge['open']> {
    this.listeners.push(listener);
    return {
      push: (codec, data) => {
        if (!this.full) this.packets.push({ codec, data });
        return !this.full;
      },
      close: () => void this.listeners.splice(this.listeners.indexOf(listener), 1),
    };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

export class SessionRig {
  readonly judge = new ScriptedJudge();
  readonly clock = new VirtualClock();
  readonly words = new SessionWords();
  readonly video: SharedPool;
  readonly audio = SharedPool.create(SAMPLES * 2, 32);
  readonly encoder = new ScriptedPictureEncoder(this.clock);
  readonly toEngine: (MediaToEngine & { readonly atMs: number })[] = [];
  readonly toControl: (MediaToControl & { readonly atMs: number; readonly wordEpoch: number })[] = [];
  readonly rtp = new RtpClock(0, 1_700_000_000_000, () => 0.999_999);
  readonly session: MediaSession;
  #sequence = 0;

  constructor({ slots = 16, options = DEFAULT_MEDIA_OPTIONS, stamped = false, voice = {}, incoming }: { readonly slots?: number; readonly options?: MediaOptions; readonly stamped?: boolean; readonly voice?: SessionVoice; readonly incoming?: VpxDecoder } = {}) {
    this.video = SharedPool.create(FORMAT.width * FORMAT.height * 3, slots);
    this.session = new MediaSession({
      sessionId: 's',
      channels: { words: this.words.buffer, video: this.video.descriptor, audio: this.audio.descriptor },
      format: FORMAT,
      stamped,
      clock: this.clock,
      rtp: this.rtp,
      pictureEncoder: this.encoder,
      soundEncoder: new ScriptedSoundEncoder(),
      sinks: {
        toEngine: (message) => this.toEngine.push({ ...message, atMs: this.clock.now() }),
        toControl: (message) => this.toControl.push({ ...message, atMs: this.clock.now(), wordEpoch: this.words.epoch }),
      },
      options,
      log: createLogger({ level: 'silent' }),
      voice: voiceInForce(voice),
      judge: this.judge,
      ...(incoming === undefined ? {} : { incoming: { decoder: incoming, framesPerChunk: 2 } }),
    });
  }

  connect(connectionId = 'c', drives = true, speaks = drives): KeepingPeer {
    const peer = new KeepingPeer(connectionId, this.clock, this.words);
    peer.onClose = () => this.session.peerState(connectionId, 'closed');
    this.session.attach(peer, drives, speaks);
    peer.state = 'connected';
    this.session.peerState(connectionId, 'connected');
    return peer;
  }

  /** A frame (and its sound, unless `silent`) of the epoch in force or the one given; returns the slots, or null where a pool is exhausted. */
  frame(index: number, over: Partial<VideoChunk> & { readonly silent?: boolean; readonly level?: number } = {}): { readonly picture: number; readonly sound: number | null } | null {
    const { silent = false, level = 1000, ...fields } = over;
    const picture = this.video.acquire();
    const sound = silent ? null : this.audio.acquire();
    if (picture === null || (!silent && sound === null)) {
      if (picture !== null) this.video.release(picture);
      if (sound !== null) this.audio.release(sound);
      return null;
    }
    this.video.bytes(picture).fill((index * 16 + (fields.epoch ?? this.words.epoch)) & 0xff);
    const video: VideoChunk = {
      type: 'media.chunk',
      revision: this.words.outgoing.revision,
      sessionId: 's',
      streamId: 'picture',
      sequence: this.#sequence++,
      epoch: this.words.epoch,
      conditioningVersion: 0,
      actionSequence: 0,
      weightsVersion: 'w',
      adapterVersions: {},
      start90k: index * FRAME,
      end90k: (index + 1) * FRAME,
      stage: 'final',
      chunk: index >> 1,
      frameInChunk: index & 1,
      step: 0,
      events: { started: [], active: [], completed: [] },
      origin: 'generated',
      kind: 'video',
      codec: 'rgb24',
      slot: picture,
      ...fields,
    };
    if (sound !== null) {
      const bytes = this.audio.bytes(sound);
      new Int16Array(bytes.buffer, bytes.byteOffset, SAMPLES).forEach((_, i, samples) => (samples[i] = level + (i % 100)));
      const { codec: _codec, kind: _kind, slot: _slot, ...common } = video;
      this.session.media({ ...common, streamId: 'sound', kind: 'audio', codec: 'pcm16', slot: sound, samples: SAMPLES } satisfies AudioChunk);
    }
    this.session.media(video);
    return { picture, sound };
  }

  send(message: Record<string, unknown>, channel: ChannelLabel = 'control', connectionId: string | null = 'c'): void {
    this.session.receive(connectionId, channel, JSON.stringify(message));
  }

  forwarded(): (Extract<MediaToControl, { type: 'channel.message' }> & { readonly atMs: number; readonly wordEpoch: number })[] {
    return this.toControl.filter((message) => message.type === 'channel.message') as never;
  }
}

/** What a frame's picture encodes to: see {@link ScriptedPictureEncoder}. */
export function content(index: number, epoch = 0): number {
  return (index * 16 + epoch) & 0xff;
}
