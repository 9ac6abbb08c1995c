import type { EngineEvent } from './EngineRuns.ts';
import type { BehaviorRecord } from './runtime/BehaviorRecord.ts';
import type { RunUsage } from './runtime/InlineRun.ts';

export type GeneratedFrame = Extract<EngineEvent, { type: 'media.chunk' }>;

/** All that one run gave. */
export interface Generated {
  /** In the order in which they are shown; each with its own sound. */
  readonly frames: readonly GeneratedFrame[];
  /** The sound of all frames: mono, signed 16 bit, at the model's sample rate. */
  readonly samples: Int16Array;
  /** What the model said. */
  readonly text: string;
  /** Pictures without sound, RGB, `width × height × 3` bytes each. */
  readonly pictures: readonly Uint8Array[];
  /** Natural logarithms, of a program that is asked for them. */
  readonly logprobs: readonly number[];
  readonly usage: RunUsage;
  readonly record: BehaviorRecord | null;
}

/** Takes everything a run gives, as fast as it comes. Throws what the run throws. */
export async function collected(events: AsyncIterable<EngineEvent>): Promise<Generated> {
  const frames: GeneratedFrame[] = [];
  const pictures: Uint8Array[] = [];
  const logprobs: number[] = [];
  let text = '';
  let completed: Extract<EngineEvent, { type: 'completed' }> | null = null;
  for await (const event of events) {
    if (event.type === 'media.chunk') frames.push(event);
    else if (event.type === 'picture') pictures.push(event.pixels);
    else if (event.type === 'text.delta') text += event.text;
    else if (event.type === 'logprobs') logprobs.push(...event.values);
    else completed = event;
  }
  const { usage, record } = completed!;
  return { frames, samples: joined(frames), text, pictures, logprobs, usage, record };
}

function joined(frames: readonly GeneratedFrame[]): Int16Array {
  const samples = new Int16Array(frames.reduce((count, frame) => count + frame.samples.length, 0));
  let at = 0;
  for (const frame of frames) {
    samples.set(frame.samples, at);
    at += frame.samples.length;
  }
  return samples;
}
