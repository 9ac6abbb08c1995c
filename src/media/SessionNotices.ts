import type { Clock, Timer } from '../observe/clock.ts';
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
  readonly clock: Clock;
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
  #positionTimer: Timer | null = null;
  #closed = false;
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

  /** A picture has left, and is no repeat. @param moved the presented position, with it. */
  left(frame: LeavingPicture['frame'], moved: boolean): void {
    const { sessionId, sinks } = this.#parts;
    if (moved) this.presented();
    if (this.#flowing !== frame.epoch) {
      this.#flowing = frame.epoch;
      sinks.toControl({ type: 'media.flowing', sessionId, epoch: frame.epoch, media90k: frame.start90k });
    }
    this.#tellPosition();
  }

  /** The presented position has moved. */
  presented(): void {
    const { sessionId, sinks, presented } = this.#parts;
    sinks.toEngine({ type: 'media.presented', sessionId, epoch: presented.epoch, media90k: presented.presented90k });
    this.#tellPosition();
  }

  /** Idempotent. */
  close(): void {
    this.#positionTimer?.cancel();
    this.#closed = true;
  }

  /**
   * At most so often, and the last one always: when a picture stands, what was seen before it stood is told soon after. Only of an epoch that something has come of: before that
   * the story may have been gone back in.
   */
  #tellPosition(): void {
    const { presented, clock, sinks, sessionId } = this.#parts;
    const { epoch, sent90k, presented90k } = presented;
    const told = this.#toldPosition;
    if (this.#closed || this.#positionTimer !== null || epoch !== this.#flowing || (epoch === told.epoch && sent90k === told.sent90k && presented90k === told.presented90k)) return;
    const nowMs = clock.now();
    if (nowMs - told.atMs < POSITION_INTERVAL_MS) {
      this.#positionTimer = clock.schedule(told.atMs + POSITION_INTERVAL_MS, () => {
        this.#positionTimer = null;
        this.#tellPosition();
      });
      return;
    }
    this.#toldPosition = { atMs: nowMs, epoch, sent90k, presented90k };
    sinks.toControl({ type: 'media.position', sessionId, epoch, sent90k, presented90k });
  }
}

/** Whether a request's effect begins or ends there. */
function bounds({ started, completed }: ChunkEvents): boolean {
  return started.length > 0 || completed.length > 0;
}
