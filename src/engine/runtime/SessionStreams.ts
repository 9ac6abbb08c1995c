import { adapterVersions } from '../model/loop_kernel.ts';
import type { EmittedFrame } from '../programs/RealtimeProgram.ts';
import type { MediaEvent, MediaVersions } from '../../streams/media_events.ts';
import type { MediaFormat, MediaTime90k } from '../../streams/media_time.ts';

/** A session's two media streams: numbers their events, and says `init` first and `complete` once. */
export class SessionStreams {
  readonly #sessionId: string;
  readonly #weightsVersion: () => string;
  readonly #send: (event: MediaEvent) => void;
  #videoSequence = 0;
  #audioSequence = 0;
  #revision = 0;
  #complete = false;

  constructor(sessionId: string, weightsVersion: () => string, send: (event: MediaEvent) => void) {
    this.#sessionId = sessionId;
    this.#weightsVersion = weightsVersion;
    this.#send = send;
  }

  init(format: MediaFormat): void {
    this.#send({ type: 'media.init', ...this.#video(), format });
    this.#send({ type: 'media.init', ...this.#audio(), format });
  }

  /** Picture and sound of one frame; their slots belong to the receiver from here on. */
  frame(frame: EmittedFrame, epoch: number): void {
    const { videoSlot, audioSlot, samples, origin, conditioningVersion, actionSequence, adapter, ...place } = frame;
    const versions: MediaVersions = { epoch, conditioningVersion, actionSequence, weightsVersion: this.#weightsVersion(), adapterVersions: adapterVersions(adapter) };
    const chunk = { type: 'media.chunk', revision: this.#revision, ...place, ...versions, stage: 'final', origin } as const;
    this.#send({ ...chunk, ...this.#video(), kind: 'video', codec: 'rgb24', slot: videoSlot });
    this.#send({ ...chunk, ...this.#audio(), kind: 'audio', codec: 'pcm16', slot: audioSlot, samples });
  }

  /** What is unsent from a position on is void; what comes is of this revision. */
  recall(revision: number, from90k: MediaTime90k): void {
    this.#revision = revision;
    this.#send({ type: 'media.recall', ...this.#video(), revision, from90k });
  }

  complete(reason: 'closed' | 'failed'): void {
    if (this.#complete) return;
    this.#complete = true;
    this.#send({ type: 'media.complete', ...this.#video(), reason });
    this.#send({ type: 'media.complete', ...this.#audio(), reason });
  }

  #video() {
    return { sessionId: this.#sessionId, streamId: `${this.#sessionId}:video`, sequence: this.#videoSequence++ };
  }

  #audio() {
    return { sessionId: this.#sessionId, streamId: `${this.#sessionId}:audio`, sequence: this.#audioSequence++ };
  }
}
