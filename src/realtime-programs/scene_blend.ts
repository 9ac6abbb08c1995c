import type { PromptBlocks, WeightedPrompt } from '../engine/model/loop_kernel.ts';
import type { ChunkEvents } from '../streams/media_events.ts';
import type { ContinuationState, Scene } from './continuation_state.ts';
import type { ScenePlan } from './continuation_model.ts';
import type { StepPlans } from './continuation_tape.ts';

/** A scene by what is left of it. */
export interface SceneShare extends WeightedPrompt {
  /** That the prompt was encoded from. */
  readonly plan: ScenePlan;
}

/** A scene going over from what was shown before it. A function of the chunk's index, so that a chunk that is made again is blended as it was. */
export interface SceneBlend {
  /** Whose wish it is. */
  readonly requestId: string | null;
  /** What was shown, by its share; together 1. Empty from the last chunk on: nothing is left of it. */
  readonly from: readonly SceneShare[];
  /** Absolute index of the first chunk that shows anything of the new scene, and how many it takes until it shows nothing else. */
  readonly firstChunk: number;
  readonly chunks: number;
}

/** A blend over a blend over a blend: shares of more scenes than this can't be told apart, and each keeps its prompt's blocks alive. */
const MAX_SHARES = 3;

/** The scene as the next chunk, the one at `video.plan.chunk`, will show it; null while there is none. */
export function sceneOfNextChunk({ scene, upcoming, video }: Pick<ContinuationState, 'scene' | 'upcoming' | 'video'>): Scene | null {
  const { chunk } = video.plan;
  if (upcoming !== null) {
    if (upcoming.over === null || scene === null) return upcoming;
    return { ...upcoming, blend: { requestId: upcoming.requestId, from: sharesOf(scene, chunk - 1), firstChunk: chunk, chunks: upcoming.over } };
  }
  if (scene === null || scene.blend === null || scene.blend.from.length === 0 || chunk < lastChunk(scene.blend)) return scene;
  return { ...scene, blend: { ...scene.blend, from: [] } };
}

/** What is left of earlier scenes in a chunk: as a conditioning takes it, absent where nothing is. */
export function mixOf({ blend }: Scene, chunk: number): { readonly mix?: readonly SceneShare[] } {
  if (blend === null || blend.from.length === 0 || chunk >= lastChunk(blend)) return {};
  const left = 1 - Math.max(0, chunk - blend.firstChunk + 1) / blend.chunks;
  return { mix: blend.from.map(({ plan, prompt, weight }) => ({ plan, prompt, weight: weight * left })) };
}

/** Plans of all that a chunk shows. */
export function stepPlansOf(scene: Scene, chunk: number): StepPlans {
  const { mix } = mixOf(scene, chunk);
  return { plan: scene.plan, ...(mix === undefined ? {} : { mix: mix.map(({ plan, weight }) => ({ plan, weight })) }) };
}

/** The request whose blend is over with a frame, the first that shows nothing but the new scene; null where none is. */
export function completesBlend({ blend }: Scene, chunk: number, frameInChunk: number): string | null {
  return blend !== null && chunk === lastChunk(blend) && frameInChunk === 0 ? blend.requestId : null;
}

/** Requests that a frame shows: both of them while one goes over into the other. */
export function eventsOf(scene: Scene, chunk: number, frameInChunk: number): ChunkEvents {
  const { requestId, replacedRequestId, blend, shown } = scene;
  const mine = requestId === null ? [] : [requestId];
  const replaced = replacedRequestId === null ? [] : [replacedRequestId];
  const blending = blend !== null && chunk < lastChunk(blend);
  const ends = blend === null ? !shown : completesBlend(scene, chunk, frameInChunk) !== null;
  return { started: shown ? [] : mine, active: blending ? [...replaced, ...mine] : mine, completed: ends ? replaced : [] };
}

/** Prompts whose blocks the blend keeps alive. */
export function promptsOf({ blend }: Scene): readonly PromptBlocks[] {
  return blend === null ? [] : blend.from.map(({ prompt }) => prompt);
}

function lastChunk({ firstChunk, chunks }: SceneBlend): number {
  return firstChunk + chunks - 1;
}

/** All that a chunk shows, the scene's own prompt included: the greatest shares, together 1. */
function sharesOf(scene: Scene, chunk: number): SceneShare[] {
  const { mix = [] } = mixOf(scene, chunk);
  const own = mix.reduce((rest, { weight }) => rest - weight, 1);
  const shares = [{ plan: scene.plan, prompt: scene.prompt, weight: own }, ...mix].filter(({ weight }) => weight > 0).sort((a, b) => b.weight - a.weight).slice(0, MAX_SHARES);
  const sum = shares.reduce((total, { weight }) => total + weight, 0);
  return shares.map(({ plan, prompt, weight }) => ({ plan, prompt, weight: weight / sum }));
}
