import type { FrameNotice } from './messages.ts';
import { NoticeLog } from './NoticeLog.ts';
import type { PaintedFrame } from './PaintedFrame.ts';
import { PresentationGate, type Presentation } from './PresentationGate.ts';
import type { SoundOutput } from './SoundOutput.ts';

/** A decoded picture on offer. `release` is called once, when it has been painted or passed over. */
export interface FrameImage {
  readonly rtp: number;
  readonly image: CanvasImageSource;
  readonly width: number;
  readonly height: number;
  /** The same picture for later, where `image` goes on to the next one by itself. */
  keep?(): FrameImage;
  release(): void;
}

/** What was in front of the person when the picture was frozen. */
export interface HeldPosition {
  readonly heldVideoRtp?: number;
  readonly heldAudioRtp?: number;
}

export interface PresenterEvents {
  painted(frame: PaintedFrame): void;
  presentation(presentation: Presentation): void;
}

/**
 * Puts pictures on the canvas and lets sound through, as the {@link PresentationGate} decides. Nothing else draws on the canvas, so what is
 * on it is what was presented.
 */
export class Presenter {
  readonly #gate = new PresentationGate();
  readonly #notices = new NoticeLog();
  readonly #context: CanvasRenderingContext2D;
  readonly #sound: SoundOutput | null;
  readonly #events: PresenterEvents;
  #waiting: FrameImage | null = null;
  #last: { readonly rtp: number; readonly paintedAt: number } | null = null;
  #told: Presentation = 'flowing';
  #closed = false;

  constructor(canvas: HTMLCanvasElement, sound: SoundOutput | null, events: PresenterEvents) {
    const context = canvas.getContext('2d', { alpha: false });
    if (!context) throw new TypeError('the canvas already has a context of another kind');
    this.#context = context;
    this.#sound = sound;
    this.#events = events;
  }

  get presentation(): Presentation {
    return this.#gate.presentation;
  }

  /** RTP timestamps of what is presented now, or nothing while the picture is frozen: a frozen picture presents nothing new. */
  get position(): { readonly videoRtp?: number; readonly audioRtp?: number } {
    if (this.#gate.presentation !== 'flowing') return {};
    const video = this.#gate.lastPainted;
    const audio = this.#heardRtp;
    return { ...(video === null ? {} : { videoRtp: video }), ...(audio === null ? {} : { audioRtp: audio }) };
  }

  /** Silence presents nothing: until the new epoch is heard, the picture alone counts. */
  get #heardRtp(): number | null {
    return this.#sound === null || this.#sound.isShut ? null : this.#sound.playedRtp();
  }

  /**
   * Freezes the picture and silences the sound, in this call. `opens`: by itself, with the first frame of the new epoch. Listeners wait for {@link tell}: the
   * request goes out before anybody redraws a page.
   */
  freeze(requestId: string, opens: boolean): HeldPosition {
    const audio = this.#heardRtp;
    this.#gate.shut(requestId, opens);
    this.#sound?.shut();
    this.#forgetWaiting();
    const video = this.#gate.lastPainted;
    return { ...(video === null ? {} : { heldVideoRtp: video }), ...(audio === null ? {} : { heldAudioRtp: audio }) };
  }

  accepted(requestId: string, epoch: number): void {
    this.#decided(this.#gate.accept(requestId, epoch));
  }

  failed(requestId: string): void {
    this.#gate.fail(requestId);
    if (this.#gate.presentation !== 'awaiting') this.#forgetWaiting();
    this.tell();
  }

  release(): void {
    this.#decided(this.#gate.release());
    this.tell();
  }

  notice(notice: FrameNotice): void {
    if (this.#closed) return;
    this.#notices.add(notice);
    this.#decided(this.#gate.announce(notice));
    const last = this.#last;
    if (last && this.#notices.at(last.rtp) === notice) this.#events.painted({ ...last, notice, late: true });
  }

  /** Takes over the frame: paints it, keeps it until it can be decided, or passes it over. */
  offer(frame: FrameImage): void {
    if (this.#closed) {
      frame.release();
      return;
    }
    const before = this.#gate.presentation;
    // The gate must be asked for what the sound waits for before the frame opens it.
    const opening = this.#gate.opening;
    if (this.#gate.offer(frame.rtp)) {
      this.#forgetWaiting();
      this.#paint(frame);
      if (before !== 'flowing' && opening) this.#sound?.openFrom(opening.audioRtp);
      this.tell();
    } else if (before === 'flowing') {
      frame.release();
    } else {
      this.#forgetWaiting();
      // Painted later, it must still be the frame that its timestamp names: the server rewinds to what was told to be seen.
      this.#waiting = frame.keep?.() ?? frame;
    }
  }

  /** A new connection is about to deliver: its RTP times have nothing to do with those before. The picture stays. */
  reconnect(): void {
    this.#gate.reconnect();
    this.#notices.clear();
    this.#forgetWaiting();
    this.#last = null;
    // The sound may have waited for a time of the old connection; the new one carries nothing from before a fence.
    if (this.#gate.presentation === 'flowing') this.#sound?.open();
  }

  /** Tells the presentation, where it has changed since it was told. */
  tell(): void {
    if (this.#told === this.#gate.presentation) return;
    this.#told = this.#gate.presentation;
    this.#events.presentation(this.#told);
  }

  close(): void {
    this.#closed = true;
    this.#forgetWaiting();
  }

  /** A call has decided the frame that was waiting: paint it. */
  #decided(rtp: number | null): void {
    const frame = this.#waiting;
    if (rtp === null || frame === null) return;
    this.#waiting = null;
    this.#paint(frame);
    const opened = this.#notices.at(rtp);
    if (opened) this.#sound?.openFrom(opened.audioRtp);
    this.tell();
  }

  #paint(frame: FrameImage): void {
    const { canvas } = this.#context;
    if (frame.width > 0 && (canvas.width !== frame.width || canvas.height !== frame.height)) {
      canvas.width = frame.width;
      canvas.height = frame.height;
    }
    this.#context.drawImage(frame.image, 0, 0, canvas.width, canvas.height);
    frame.release();
    const paintedAt = performance.now();
    this.#last = { rtp: frame.rtp, paintedAt };
    this.#events.painted({ rtp: frame.rtp, paintedAt, notice: this.#notices.at(frame.rtp), late: false });
  }

  #forgetWaiting(): void {
    this.#waiting?.release();
    this.#waiting = null;
  }
}
