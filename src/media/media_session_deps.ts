import type { Clock } from '../observe/clock.ts';
import type { Logger } from '../observe/log.ts';
import type { VoiceOptions } from '../protocol/session_voice.ts';
import type { MediaFormat, MediaTime90k } from '../streams/media_time.ts';
import type { MediaToControl, MediaToEngine, SessionChannels } from '../streams/messages.ts';
import type { OpusEncoder, VpxDecoder, VpxEncoder } from './native.ts';
import type { MediaOptions } from './options.ts';
import type { Peer } from './Peer.ts';
import type { RtpClock } from './RtpClock.ts';
import type { VoiceJudge } from './voice/VoiceJudge.ts';

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

/** Of one client. */
export interface MediaConnection {
  readonly peer: Peer;
  readonly drives: boolean;
  readonly speaks: boolean;
}
