import { ElementVideo } from './ElementVideo.ts';
import type { Presenter } from './Presenter.ts';
import { TrackVideo } from './TrackVideo.ts';

/**
 * Pictures of a peer connection, by the shortest way that the browser has: straight from the track, or else by a `<video>`, whose frames come a
 * rendering later (10 to 20 ms).
 */
export class PeerVideo {
  #source: { close(): void };
  #closed = false;

  constructor(receiver: RTCRtpReceiver, presenter: Presenter) {
    this.#source = TrackVideo.isSupported
      ? new TrackVideo(receiver.track, presenter, () => {
          if (!this.#closed) this.#source = new ElementVideo(receiver, presenter);
        })
      : new ElementVideo(receiver, presenter);
  }

  /** Idempotent. */
  close(): void {
    this.#closed = true;
    this.#source.close();
  }
}
