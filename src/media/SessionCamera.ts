import { VideoIntake, type VideoIntakeDeps } from './VideoIntake.ts';

export interface SessionCameraDeps extends Omit<VideoIntakeDeps, 'keyframeNeeded' | 'failed'> {
  readonly keyframeNeeded: (connectionId: string) => void;
  readonly failed: (connectionId: string, message: string) => void;
}

/** The video that a session takes in: of the driver that sent last. */
export class SessionCamera {
  readonly #intake: VideoIntake;
  #of: string | null = null;

  constructor({ keyframeNeeded, failed, ...deps }: SessionCameraDeps) {
    this.#intake = new VideoIntake({ ...deps, keyframeNeeded: () => keyframeNeeded(this.#of ?? ''), failed: (message) => failed(this.#of ?? '', message) });
  }

  get dropped(): number {
    return this.#intake.dropped;
  }

  /** A VP8 frame of a driver's; null: one was lost. */
  see(connectionId: string, frame: Uint8Array | null): void {
    // Another stream begins with a keyframe of its own.
    const another = this.#of !== null && this.#of !== connectionId;
    this.#of = connectionId;
    if (another) this.#intake.push(null);
    this.#intake.push(frame);
  }

  close(): void {
    this.#intake.close();
  }
}
