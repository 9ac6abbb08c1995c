import type { EngineCore } from '../../../../src/engine/runtime/EngineCore.ts';
import type { AdapterInForce } from '../../../../src/protocol/session_adapter.ts';
import { monotonicMs } from '../../../../src/observe/clock.ts';
import type { MediaEvent } from '../../../../src/streams/media_events.ts';
import { SessionWords } from '../../../../src/streams/session_words.ts';
import { SharedPool } from '../../../../src/streams/shared_pool.ts';

/** A live session beside a run: plays what it is given, in real time, and looks at none of it. */
export class LiveSession {
  readonly sessionId: string;
  readonly #core: EngineCore;
  readonly #words = new SessionWords();
  readonly #video = SharedPool.create(224 * 128 * 3, 12);
  readonly #audio = SharedPool.create(4000, 12);
  frames = 0;

  constructor(core: EngineCore, sessionId: string, prompt: string, adapter: AdapterInForce | null = null) {
    this.#core = core;
    this.sessionId = sessionId;
    const channels = { words: this.#words.buffer, video: this.#video.descriptor, audio: this.#audio.descriptor };
    core.receive({ type: 'session.open', sessionId, model: 'drive', program: 'drive', seed: 3, prompt, image: null, adapter, tenant: 't', channels });
  }

  play(event: MediaEvent): void {
    if (event.type !== 'media.chunk') return;
    (event.kind === 'video' ? this.#video : this.#audio).release(event.slot);
    if (event.kind !== 'video') return;
    this.frames++;
    const { anchor } = this.#words;
    // What comes too late moves the timeline, as an underrun does.
    if (anchor !== null && monotonicMs() < anchor.atMs + (event.start90k - anchor.mediaTime90k) / 90) return;
    this.#words.writeAnchor({ mediaTime90k: event.start90k, atMs: monotonicMs() + 40 });
    setImmediate(() => this.#core.receiveMedia({ type: 'media.anchored', sessionId: this.sessionId }));
  }

  close(): void {
    this.#words.markClosed();
    this.#core.receive({ type: 'session.close', sessionId: this.sessionId });
  }
}
