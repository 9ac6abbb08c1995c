import type { PlannedUnit } from '../engine/model/work.ts';
import { SegueError } from '../protocol/errors.ts';
import type { PromptLanguage } from '../realtime-programs/continuation_model.ts';

export interface SpokenLengths {
  /** Tokens of a plan, and of what is told about it; with a separator between and an end they fill a pass of the director. */
  readonly plan: number;
  readonly narration: number;
}

const SEPARATOR = 1;
const END = 2;
const TOLD = 3;
const SCENES = 10;
const FIRST_SCENE = 10;
const VOCABULARY = 32;

/**
 * A language in which a scene is a number, and the director says what it is asked to: as many words as a real one, and no meaning. "scene 3" plans scene 3.
 */
export function spokenNumbers({ plan: planTokens, narration }: SpokenLengths): PromptLanguage {
  return {
    vocabulary: ['scene'],
    endIds: [END],
    maxTokens: planTokens + narration + 2,
    choose: (seed) => ({ scene: seed % SCENES }),
    parse: (prompt) => {
      const scene = /\d/.exec(prompt)?.[0];
      if (scene === undefined) throw new SegueError('prompt_not_understood', 'no scene is named', { param: 'prompt' });
      return { edits: [scene], changes: { scene: Number(scene) }, warnings: [] };
    },
    directorIds: (plan, edit) => [FIRST_SCENE + plan['scene']!, SEPARATOR, FIRST_SCENE + Number(edit)],
    read: (tokens) => {
      const end = tokens.indexOf(SEPARATOR);
      return end < 0 ? { plan: null, narration: '' } : { plan: { scene: tokens[0]! - FIRST_SCENE }, narration: tokens.slice(end + 1).filter((id) => id !== END).join(' ') };
    },
    say: (tokens) => tokens.filter((id) => id !== END).join(' '),
    describe: (plan) => `scene ${plan['scene']}`,
    named: (plan) => ({ scene: String(plan['scene']) }),
    fromNamed: (plan) => Object.fromEntries(Object.entries(plan).map(([name, value]) => [name, Number(value)])),
    encode: (plan) => Array<number>(12).fill(FIRST_SCENE + plan['scene']!),
    bankIndex: (plan) => plan['scene']!,
    planOfEntry: (index) => ({ scene: index % SCENES }),
  };
}

/** What the graphs would say: the scene that was asked for, once per token of a plan, then the separator and what is told. */
export function spokenValues({ plan: planTokens, narration }: SpokenLengths): (unit: PlannedUnit) => Readonly<Record<string, Float32Array>> {
  return ({ kernel, plan }) => {
    if (kernel !== 'ar_decode') return {};
    const { prompt, tokens } = plan.state as { readonly prompt: readonly number[]; readonly tokens: readonly number[] };
    const said = tokens.length;
    const logits = new Float32Array(VOCABULARY);
    logits[said < planTokens ? prompt.at(-1)! : said === planTokens ? SEPARATOR : said <= planTokens + narration ? TOLD : END] = 1;
    return { logits };
  };
}
