import type { Clock } from '../../observe/clock.ts';
import type { VoiceOptions } from '../../protocol/session_voice.ts';
import type { VoiceCodec } from './voice_messages.ts';
import type { VoiceJudge, VoiceStream } from './VoiceJudge.ts';
import { VoicePolicy, type Asked, type VoicePolicyHost } from './VoicePolicy.ts';

/** The voices of one session: each connection's packets to the judge, judgements to the policy. */
export class SessionVoices {
  readonly #judge: VoiceJudge;
  readonly #policy: VoicePolicy;
  readonly #deaf: (connectionId: string) => void;
  readonly #streams = new Map<string, VoiceStream>();
  /** Packets dropped because the judge was behind. */
  dropped = 0;
  #closed = false;

  /** @param deps `deaf`: a connection's voice isn't heard any more; told once. */
  constructor(deps: { readonly clock: Clock; readonly options: VoiceOptions; readonly judge: VoiceJudge; readonly deaf: (connectionId: string) => void } & Omit<VoicePolicyHost, 'clock' | 'options'>) {
    this.#judge = deps.judge;
    this.#deaf = deps.deaf;
    this.#policy = new VoicePolicy(deps);
  }

  hear(connectionId: string, codec: VoiceCodec, data: Uint8Array): void {
    if (this.#closed) return;
    let stream = this.#streams.get(connectionId);
    if (stream === undefined) {
      stream = this.#judge.open({
        judged: (probabilities) => {
          for (const probability of probabilities) this.#policy.judged(connectionId, probability);
        },
        lost: () => {
          this.#policy.left(connectionId);
          this.#deaf(connectionId);
        },
      });
      this.#streams.set(connectionId, stream);
    }
    this.#policy.heard(connectionId);
    if (!stream.push(codec, data)) this.dropped++;
  }

  left(connectionId: string): void {
    this.#streams.get(connectionId)?.close();
    this.#streams.delete(connectionId);
    this.#policy.left(connectionId);
  }

  asked(asked: Asked): void {
    this.#policy.asked(asked);
  }

  /** Idempotent. */
  close(): void {
    this.#closed = true;
    this.#policy.close();
    for (const stream of this.#streams.values()) stream.close();
    this.#streams.clear();
  }
}
