import type { TextDelta } from '../protocol/channel.ts';
import type { EngineToControl } from '../streams/messages.ts';

type EngineText = Pick<Extract<EngineToControl, { type: 'text' }>, 'requestId' | 'stream' | 'text' | 'complete' | 'whole'>;

interface Spoken {
  readonly requestId: string | null;
  readonly text: string;
  readonly complete: boolean;
}

/** Characters kept of each stream: as much as the prompt memory keeps of a turn. */
const MAX_TEXT = 2_000;

/** What the model says of the world that is shown: its last plan, and the narration so far. Told again to whoever joins later. */
export class SessionCaptions {
  readonly #spoken: Record<TextDelta['stream'], Spoken | null> = { plan: null, narration: null };

  /** Words come in pieces; `complete` marks the last one. Returns what clients are told: the piece, or at the end the whole. */
  take({ requestId, stream, text, complete, whole }: EngineText): TextDelta {
    const before = this.#spoken[stream];
    const goesOn = whole !== true && before !== null && !before.complete && before.requestId === requestId;
    const spoken: Spoken = { requestId, text: ((goesOn ? before.text : '') + text).slice(0, MAX_TEXT), complete };
    this.#spoken[stream] = spoken;
    // The story of the world before is none of the new one.
    if (stream === 'plan' && this.#spoken.narration?.requestId !== requestId) this.#spoken.narration = null;
    return complete ? message(stream, spoken) : message(stream, { ...spoken, text });
  }

  /** All that was said so far, of the request that says it. */
  textOf(stream: TextDelta['stream']): string {
    return this.#spoken[stream]?.text ?? '';
  }

  /** For who has just joined, plan first; nothing while nothing was said. What is not complete goes on with further deltas. */
  messages(): TextDelta[] {
    return (['plan', 'narration'] as const).flatMap((stream) => {
      const spoken = this.#spoken[stream];
      if (spoken === null || spoken.text === '') return [];
      return [{ ...message(stream, spoken), ...(spoken.complete ? {} : { soFar: true as const }) }];
    });
  }
}

function message(stream: TextDelta['stream'], { requestId, text, complete }: Spoken): TextDelta {
  return { type: complete ? 'text.complete' : 'text.delta', stream, text, ...(requestId === null ? {} : { re: requestId }) };
}
