import type { Conditioning, PromptBlocks } from '../loop_kernel.ts';
import type { UnitInput } from '../work.ts';

/**
 * A prompt as inputs of a graph. While one prompt goes over into another, keys, values and the additive mask are interpolated: a word that only one
 * of them has fades out of the attention with its mask.
 */
export function promptInputs(prompt: PromptBlocks, mix: NonNullable<Conditioning['mix']> = []): Record<string, UnitInput> {
  const own = mix.reduce((rest, { weight }) => rest - weight, 1);
  return Object.fromEntries(
    Object.entries(prompt).map(([name, block]) => [
      name,
      mix.length === 0 ? { kind: 'block', block } : { kind: 'mix', parts: [{ block, weight: own }, ...mix.map((part) => ({ block: part.prompt[name]!, weight: part.weight }))] },
    ]),
  );
}
