import { bindingContext } from '../engine/model/binding_context.ts';
import type { AudioPlan } from '../engine/model/kernels/audio.ts';
import type { BlockId } from '../engine/model/work.ts';
import type { InlineProgram } from '../engine/programs/InlineProgram.ts';
import type { KeptChunkPart, KeptSnapshotPart, ReadPart, StoryKeeping, StoryReturn, WantedTensor } from '../engine/programs/StoryKeeping.ts';
import { frameDuration90k } from '../streams/media_time.ts';
import type { ContinuationModel } from './continuation_model.ts';
import type { ContinuationState, Scene } from './continuation_state.ts';
import { KeptPicture } from './KeptPicture.ts';
import { EMPTY_TAPE, type ChunkTape, type StepRecord, type WeightedPlan } from './continuation_tape.ts';
import type { SceneBlend } from './scene_blend.ts';
import { StoryRestoration, type PendingWrite } from './StoryRestoration.ts';

/** A scene without blocks: what it shows is encoded again. */
export interface KeptScene extends Omit<Scene, 'prompt' | 'blend'> {
  readonly blend: (Omit<SceneBlend, 'from'> & { readonly from: readonly WeightedPlan[] }) | null;
}

/** What is kept of a chunk of a video continuation, beside its tensors: `latents`, `pin` where there is one, and `sound.…`, what the synthesiser carries on. */
export interface ChunkData extends ChunkTape {
  readonly lineage: number;
  /** Of the story so far. */
  readonly storyFrames: number;
  readonly scene: KeptScene;
  readonly writeUnder: StepRecord | null;
  readonly sound: AudioPlan;
  readonly pinnedFrames: number;
  readonly seeded: boolean;
}

/** Of a snapshot, beside its tensors: keys and values of the window (`k0`, `v0` … oldest first) and `prev`. */
export interface SnapshotData {
  /** The chunk behind the window. */
  readonly next: number;
  readonly tPrev: number;
  readonly entries: number;
  /** How the last chunk of the window was written, where that is the one that ends here. */
  readonly write: StepRecord | null;
}

/** Before the names of tensors that the sound carries on. */
export const SOUND = 'sound.';

/** How a video continuation outlives the process. */
export class ContinuationKeeping implements StoryKeeping<ContinuationState> {
  readonly pictures: InlineProgram;
  readonly #model: ContinuationModel;
  readonly #restoration: StoryRestoration;
  readonly #chunk90k: number;

  constructor(model: ContinuationModel) {
    this.#model = model;
    this.pictures = new KeptPicture(model);
    this.#restoration = new StoryRestoration(model);
    this.#chunk90k = frameDuration90k(model.format) * model.framesPerChunk;
  }

  chunk(version: ContinuationState): KeptChunkPart | null {
    const { made, scene, inFlight, position90k, sound, lineage } = version;
    if (made === null || scene === null || inFlight !== null) return null;
    const { latents, pin, pinnedFrames, seeded, write, steps, frames } = made;
    const data: ChunkData = { lineage, storyFrames: version.frames, scene: keptScene(scene), writeUnder: seeded ? null : (steps.at(-1) ?? null), sound: sound.plan, pinnedFrames, seeded, write, steps, frames };
    // Blocks: what was given is carried on by nobody but a replay.
    const carried = Object.entries(sound.carried ?? {}).flatMap(([name, block]) => (typeof block === 'number' ? [[SOUND + name, block] as const] : []));
    return {
      chunk: version.chunk - 1,
      start90k: position90k - this.#chunk90k,
      end90k: position90k,
      conditioningVersion: scene.conditioningVersion,
      data: { ...data },
      blocks: { latents, ...(pin === null ? {} : { pin }), ...Object.fromEntries(carried) },
    };
  }

  seen(version: ContinuationState): KeptChunkPart | null {
    const { made, scene, inFlight, position90k, sound, lineage, video, tape } = version;
    const { framesPerChunk } = this.#model;
    const shown = version.frames % framesPerChunk;
    if (made !== null || scene === null || shown === 0) return this.chunk(version);
    // Start frames go on as they are; any other chunk is made again around the frames of it that were seen.
    const seeded = inFlight !== null;
    const latents = seeded ? this.#model.loops.video.latentsOf(video) : video.pin;
    if (latents === null) return null;
    const data: ChunkData = { lineage, storyFrames: version.frames, scene: keptScene(scene), writeUnder: null, sound: sound.plan, pinnedFrames: seeded ? 0 : shown, seeded, ...tape };
    return {
      chunk: version.chunk,
      start90k: position90k - shown * (this.#chunk90k / framesPerChunk),
      end90k: position90k,
      conditioningVersion: scene.conditioningVersion,
      data: { ...data },
      blocks: seeded ? { latents } : { pin: latents },
    };
  }

  snapshot({ video, tape, chunk }: ContinuationState): KeptSnapshotPart {
    const { plan, window, prev } = video;
    const data: SnapshotData = { next: plan.chunk, tPrev: plan.tPrev, entries: window.length, write: plan.phase === 'denoise' ? tape.write : null };
    const blocks: Record<string, BlockId> = prev === null ? {} : { prev };
    for (const [place, { k, v }] of window.entries()) {
      blocks[`k${place}`] = k;
      blocks[`v${place}`] = v;
    }
    return { chunk: chunk - 1, data: { ...data }, blocks };
  }

  resume(seed: number, chunks: readonly ReadPart[], snapshot: ReadPart | null): StoryReturn<ContinuationState> {
    const { windowChunks } = this.#model;
    const all = chunks.map(({ data }) => data as unknown as ChunkData);
    const last = chunks.length - 1;
    // Where the story, or the last cut in it, begins: what lies before isn't seen from there, nor is a window that ends there.
    const begin = all.findLastIndex(({ write }) => write === null);
    const kept = snapshot === null ? null : (snapshot.data as unknown as SnapshotData);
    const window = kept === null || (begin >= 0 && kept.next <= chunks[begin]!.chunk) ? null : kept;
    // Chunks whose keys and values aren't there: all after the snapshot's window, or as many as a window holds. The last one's are written as the story goes on.
    const first = window === null ? Math.max(0, last - windowChunks, begin) : window.next - chunks[0]!.chunk;
    const wanted: WantedTensor[] = [];
    const want = (chunk: number | null, name: string, memory: WantedTensor['memory']): number => wanted.push({ chunk, name, memory }) - 1;
    const entries = Array.from({ length: window?.entries ?? 0 }, (_, place) => ({ k: want(null, `k${place}`, 'kv'), v: want(null, `v${place}`, 'kv') }));
    const prev = window !== null && snapshot?.tensors.includes('prev') === true ? want(null, 'prev', 'activations') : null;
    const latents = chunks.map((_, index) => (index < first && index !== last ? null : want(index, 'latents', 'activations')));
    const carried = chunks[last]!.tensors.filter((name) => name.startsWith(SOUND)).map((name) => ({ name: name.slice(SOUND.length), at: want(last, name, 'activations') }));
    const pin = chunks[last]!.tensors.includes('pin') ? want(last, 'pin', 'activations') : null;
    const open = (blocks: readonly BlockId[]): ContinuationState => {
      const { loops } = this.#model;
      const block = (at: number): BlockId => blocks[at]!;
      const end = all[last]!;
      const writes: PendingWrite[] = [];
      for (let index = Math.max(0, first); index < last; index++) writes.push({ latents: block(latents[index]!), seeded: all[index]!.seeded, record: all[index + 1]!.write! });
      const isWritten = first > last;
      const ctx = bindingContext(seed);
      const video =
        window === null
          ? loops.video.initState({ firstChunk: chunks[first]!.chunk }, ctx)
          : loops.video.resumed({ chunk: window.next, tPrev: window.tPrev, window: entries.map(({ k, v }) => ({ k: block(k), v: block(v) })), prev: prev === null ? null : block(prev) });
      const { write, steps, frames, pinnedFrames, seeded } = end;
      return this.#restoration.begun({
        position90k: chunks[last]!.end90k,
        chunk: chunks[last]!.chunk + 1,
        lineage: end.lineage,
        seed,
        reduced: false,
        frames: end.storyFrames,
        opening: null,
        scene: sceneOf(end.scene),
        upcoming: null,
        start: null,
        video,
        sound: loops.sound.resumed(end.sound, carried.length === 0 ? null : Object.fromEntries(carried.map(({ name, at }) => [name, block(at)]))),
        inFlight: null,
        writeUnder: null,
        incoming: null,
        talk: null,
        narration: null,
        tape: isWritten ? { ...EMPTY_TAPE, write: window!.write } : EMPTY_TAPE,
        made: { latents: block(latents[last]!), pin: pin === null ? null : block(pin), pinnedFrames, seeded, write, steps, frames },
        restoring: { writes, last: isWritten ? null : { latents: block(latents[last]!), seeded }, under: isWritten ? null : end.writeUnder, encoded: [], encoder: null },
      });
    };
    return { wanted, speed: all.findLast(({ steps }) => steps.length > 0)?.steps.at(-1)?.speed ?? 0, open };
  }
}

function keptScene({ prompt: _prompt, blend, ...shown }: Scene): KeptScene {
  return { ...shown, blend: blend === null ? null : { ...blend, from: blend.from.map(({ plan, weight }) => ({ plan, weight })) } };
}

/** Its prompts are without blocks until the restoration has encoded them. */
function sceneOf({ blend, ...shown }: KeptScene): Scene {
  return { ...shown, prompt: {}, blend: blend === null ? null : { ...blend, from: blend.from.map((share) => ({ ...share, prompt: {} })) } };
}
