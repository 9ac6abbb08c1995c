import type { CommittedStep } from '../programs/RealtimeProgram.ts';
import type { BlockId, NoiseCounter, WorkPlan } from '../model/work.ts';

/** What a run did, caught where it happened: enough to prove or to train on what the served policy generated. Plain data. */
export interface BehaviorRecord {
  readonly runId: string;
  readonly programId: string;
  readonly modelId: string;
  readonly weightsVersion: string;
  readonly adapterVersions: Readonly<Record<string, string>>;
  /** Machine, runtime and mode that the numbers are bit-equal on. */
  readonly fingerprint: string;
  readonly precision: string;
  readonly parallelPlanHash: string;
  readonly seed: number;
  readonly texts: readonly RecordedText[];
  readonly trajectory: readonly RecordedStep[];
  /** A bound was reached, or latents could not be read: what is there is right, but not all is there. */
  readonly incomplete: boolean;
}

/** One text that a language loop sampled, token by token. */
export interface RecordedText {
  readonly loopId: string;
  readonly prompt: readonly number[];
  readonly tokens: readonly number[];
  /** Natural logarithm of the probability of each token, as it was when it was sampled. */
  readonly logprobs: readonly number[];
}

/** One denoise step. */
export interface RecordedStep {
  readonly loopId: string;
  readonly chunk: number;
  readonly step: number;
  /** Noise levels from and to. */
  readonly t: number;
  readonly tNext: number;
  readonly steer: number;
  readonly speed: number;
  /** Names the noise of the chunk: the same counter gives the same noise. */
  readonly noise: NoiseCounter | null;
  /** The latents after the step, where they were asked for. */
  readonly latents: Float32Array | null;
}

export interface RecordOptions {
  /** Keep the latents after each denoise step too: each is read back from the executor. */
  readonly latents: boolean;
}

/** Bounds of one record: beyond them it goes on without, and says so. A minute of the shipped model stays within. */
export const MAX_RECORDED_TOKENS = 4096;
export const MAX_RECORDED_STEPS = 1024;
export const MAX_RECORDED_LATENTS = 256;

/** Latents are filled in when they have been read. */
type Recording = Omit<RecordedStep, 'latents'> & { latents: Float32Array | null };

interface Reader {
  /** Bytes of blocks; they are kept alive meanwhile. */
  read(block: BlockId): Promise<Float32Array>;
}

/** Writes the {@link BehaviorRecord} of one run, from its committed steps only: what was thrown away never happened. */
export class BehaviorRecorder {
  readonly #options: RecordOptions;
  readonly #reader: Reader;
  readonly #texts: { loopId: string; prompt: readonly number[]; tokens: number[]; logprobs: number[] }[] = [];
  readonly #steps: Recording[] = [];
  readonly #reads = new Set<Promise<void>>();
  #numTokens = 0;
  #numLatents = 0;
  #incomplete = false;

  constructor(options: RecordOptions, reader: Reader) {
    this.#options = options;
    this.#reader = reader;
  }

  committed({ turn: { loopId }, stepped, outputs }: CommittedStep, plan: WorkPlan): void {
    const { token, logprob } = outputs.values;
    if (token !== undefined && logprob !== undefined) this.#sampled(loopId, stepped.plan['prompt'] as readonly number[], stepped.plan['tokens'] as readonly number[], token, logprob);
    if (plan.kind === 'diffusion_step') this.#denoised(loopId, plan, outputs.blocks);
  }

  /** The record, when all that was asked to be read has been. */
  async finish(identity: Omit<BehaviorRecord, 'texts' | 'trajectory' | 'incomplete'>): Promise<BehaviorRecord> {
    await Promise.all(this.#reads);
    return { ...identity, texts: this.#texts, trajectory: this.#steps, incomplete: this.#incomplete };
  }

  #sampled(loopId: string, prompt: readonly number[], tokens: readonly number[], token: readonly number[], logprob: readonly number[]): void {
    if (this.#numTokens + token.length > MAX_RECORDED_TOKENS) {
      this.#incomplete = true;
      return;
    }
    this.#numTokens += token.length;
    // Its first token begins a text: a loop may sample several, one after the other.
    if (tokens.length === token.length) this.#texts.push({ loopId, prompt, tokens: [], logprobs: [] });
    const text = this.#texts.findLast((other) => other.loopId === loopId);
    text?.tokens.push(...token);
    text?.logprobs.push(...logprob);
  }

  #denoised(loopId: string, { inputs, step, state }: WorkPlan, blocks: Readonly<Record<string, BlockId>>): void {
    if (this.#steps.length >= MAX_RECORDED_STEPS) {
      this.#incomplete = true;
      return;
    }
    const number = (name: string): number => {
      const input = inputs[name];
      return input !== undefined && 'values' in input ? input.values[0]! : NaN;
    };
    const eps = inputs['eps'];
    const recorded: Recording = {
      loopId,
      chunk: Number(state['chunk']),
      step,
      t: number('t'),
      tNext: number('t_next'),
      // The graph takes 0, 1, 2.
      steer: number('steer') - 1,
      speed: number('speed'),
      noise: eps?.kind === 'noise' ? eps.counter : null,
      latents: null,
    };
    this.#steps.push(recorded);
    const block = Object.values(blocks)[0];
    if (!this.#options.latents || block === undefined) return;
    if (this.#numLatents >= MAX_RECORDED_LATENTS) {
      this.#incomplete = true;
      return;
    }
    this.#numLatents++;
    const read = this.#reader.read(block).then(
      (latents) => void (recorded.latents = latents),
      () => void (this.#incomplete = true),
    );
    this.#reads.add(read);
    void read.then(() => this.#reads.delete(read));
  }
}
