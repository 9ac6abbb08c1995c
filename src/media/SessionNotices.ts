import type { FrameNotice } from '../protocol/channel.ts';
import type { ChunkEvents } from '../streams/media_events.ts';
import type { MediaConnection, MediaSinks } from './media_session_deps.ts';
import type { LeavingPicture } from './PicturePump.ts';
import type { PresentedTracker } from './PresentedTracker.ts';
import type { RtpClock } from './RtpClock.ts';

/** A notice goes with every change and with every twelfth frame besides. */
const NOTICE_INTERVAL_FRAMES = 12;
const POSITION_INTERVAL_MS = 250;

export interface SessionNoticesParts {
  readonly sessionId: string;
  readonly sinks: MediaSinks;
  readonly rtp: RtpClock;
  readonly presented: PresentedTracker;
  readonly connections: ReadonlyMap<string, MediaConnection>;
}

/** What is told of a session's pictures as they leave: to its clients which frame each is, to the engine and the control thread how far it was sent and seen. */
export class SessionNotices {
  readonly #parts: SessionNoticesParts;
  #noticed: FrameNotice | null = null;
  /** The newest fence. */
  #fencedBy: { readonly epoch: number; readonly requestId: string } | null = null;
  #sinceNotice = 0;
  #flowing: number | null = null;
  #toldPosition = { atMs: -Infinity, epoch: -1, sent90k: 0, presented90k: 0 };

  constructor(parts: SessionNoticesParts) {
    this.#parts = parts;
  }

  /** A newcomer has to be told what it sees. */
  newcomer(): void {
    this.#noticed = null;
  }

  fenced(epoch: number, requestId: string): void {
    this.#fencedBy = { epoch, requestId };
  }

  /** Before a picture leaves: its notice comes first. */
  announce(frame: LeavingPicture['frame'], rtp: number, atMs: number): void {
    const last = this.#noticed;
    const changed = last === null || bounds(frame.events) || last.epoch !== frame.epoch || last.conditioningVersion !== frame.conditioningVersion || last.actionSequence !== frame.actionSequence;
    if (!changed && ++this.#sinceNotice < NOTICE_INTERVAL_FRAMES) return;
    this.#sinceNotice = 0;
    const notice: FrameNotice = {
      type: 'frame',
      rtp,
      audioRtp: this.#parts.rtp.audio(atMs),
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
    for (const { peer } of this.#parts.connections.values()) peer.sendText('state', text);
  }

  /** A picture has left. @param moved the presented position, with it. */
  left({ frame, repeat }: Pick<LeavingPicture, 'frame' | 'repeat'>, moved: boolean, nowMs: number): void {
    const { sessionId, sinks } = this.#parts;
    if (moved && !repeat) this.presented();
    if (!repeat && this.#flowing !== frame.epoch) {
      this.#flowing = frame.epoch;
      sinks.toControl({ type: 'media.flowing', sessionId, epoch: frame.epoch, media90k: frame.start90k });
    }
    // Also while it stands, and its last picture is repeated: else the last that was seen of it would never be told.
    this.#tellPosition(nowMs);
  }

  /** The presented position has moved. */
  presented(): void {
    const { sessionId, sinks, presented } = this.#parts;
    sinks.toEngine({ type: 'media.presented', sessionId, epoch: presented.epoch, media90k: presented.presented90k });
  }

  /** Once in a while, where it has changed; of an epoch that something has come of: before, the story may have been gone back in. */
  #tellPosition(nowMs: number): void {
    const { epoch, sent90k, presented90k } = this.#parts.presented;
    const told = this.#toldPosition;
    if (epoch !== this.#flowing || nowMs - told.atMs < POSITION_INTERVAL_MS || (epoch === told.epoch && sent90k === told.sent90k && presented90k === told.presented90k)) return;
    this.#toldPosition = { atMs: nowMs, epoch, sent90k, presented90k };
    this.#parts.sinks.toControl({ type: 'media.position', sessionId: this.#parts.sessionId, epoch, sent90k, presented90k });
  }
}

/** Whether a request's effect begins or ends there. */
function bounds({ started, completed }: ChunkEvents): boolean {
  return started.length > 0 || completed.length > 0;
}
