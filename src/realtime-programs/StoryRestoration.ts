import { bindingContext } from '../engine/model/binding_context.ts';
import type { EncoderChunkState } from '../engine/model/kernels/encoder_chunk.ts';
import type { VideoContinuationState } from '../engine/model/kernels/video_continuation.ts';
import type { PromptBlocks } from '../engine/model/loop_kernel.ts';
import type { BlockId } from '../engine/model/work.ts';
import type { CommittedStep } from '../engine/programs/RealtimeProgram.ts';
import type { LoopTurn } from '../engine/scheduler/LoopTurn.ts';
import type { ContinuationModel, ScenePlan } from './continuation_model.ts';
import type { ContinuationState } from './continuation_state.ts';
import { conditioningOf, plansOf, samePlan, type StepRecord } from './continuation_tape.ts';

/** A chunk whose keys and values are to be written again. */
export interface PendingWrite {
  readonly latents: BlockId;
  readonly seeded: boolean;
  /** What they were written under. */
  readonly record: StepRecord;
}

/** A kept story on its way back: the window is filled from latents, and plans are encoded as they are needed. Then the story goes on. */
export interface Restoration {
  /** Oldest first; the first one is in the video loop. */
  readonly writes: readonly PendingWrite[];
  /** The chunk that the story goes on behind; null where the window holds it already. */
  readonly last: Omit<PendingWrite, 'record'> | null;
  /** What that one's keys and values are to be written under; null: under what is held then. */
  readonly under: StepRecord | null;
  /** Plans that have been encoded and are still needed. */
  readonly encoded: readonly EncodedPlan[];
  readonly encoder: EncoderChunkState | null;
}

export interface EncodedPlan {
  readonly plan: ScenePlan;
  readonly prompt: PromptBlocks;
}

/** The steps of a restoration, one turn at a time. */
export class StoryRestoration {
  readonly #model: ContinuationModel;

  constructor(model: ContinuationModel) {
    this.#model = model;
  }

  /** With its first step ready to be planned. */
  begun(state: ContinuationState): ContinuationState {
    return this.#prepared({ ...state, video: this.#nextChunk(state.video, state.restoring!) });
  }

  /** What may step now: one thing after the other, each from what the one before made. */
  turn(state: ContinuationState, { writes, encoder, encoded }: Restoration): LoopTurn {
    const { components, loops } = this.#model;
    const base = { leadsTo: state.position90k, after: [components.write, ...Array<string>(this.#model.steps).fill(components.denoise), components.picture, components.sound], opensMedia: false, boosted: false, restores: true } as const;
    if (encoder !== null) {
      return { ...base, loopId: 'encoder', kernel: loops.encoder.kind, component: components.encoder, state: encoder, lineage: state.lineage, conditioning: { kind: 'live', version: 0, prompt: null } };
    }
    const { record } = writes[0]!;
    const { write } = record.adapter === null ? components : components.adapted!;
    return { ...base, loopId: 'video', kernel: loops.video.kind, component: write, state: state.video, lineage: record.lineage, conditioning: { kind: 'fixed', conditioning: conditioningOf(record, promptIn(encoded)) } };
  }

  /** After one of its steps. Where it is over, `restoring` is null. */
  advance(state: ContinuationState, { turn, stepped }: CommittedStep): ContinuationState {
    const restoring = state.restoring!;
    if (turn.loopId === 'encoder') {
      const fresh = { plan: missing(wantedPlans(state, restoring), restoring.encoded)!, prompt: (stepped as EncoderChunkState).encoded! };
      return this.#prepared({ ...state, restoring: { ...restoring, encoder: null, encoded: [...restoring.encoded, fresh] } });
    }
    const rest = { ...restoring, writes: restoring.writes.slice(1) };
    return this.#prepared({ ...state, video: this.#nextChunk(stepped as VideoContinuationState, rest), restoring: rest });
  }

  /** The chunk that is written next, or the one that the story goes on behind. */
  #nextChunk(video: VideoContinuationState, { writes, last }: Restoration): VideoContinuationState {
    const next = writes[0] ?? last;
    return next === null ? video : this.#model.loops.video.finished(video, next.latents, next.seeded);
  }

  /** The next plan that must be encoded is being; else the next write can be planned; else the story goes on. */
  #prepared(state: ContinuationState): ContinuationState {
    const wanted = wantedPlans(state, state.restoring!);
    const encoded = state.restoring!.encoded.filter(({ plan }) => wanted.some((other) => samePlan(other, plan)));
    const restoring = { ...state.restoring!, encoded };
    const plan = missing(wanted, encoded);
    if (plan !== undefined) {
      const { loops, language } = this.#model;
      return { ...state, restoring: { ...restoring, encoder: loops.encoder.initState({ ids: language.encode(plan) }, bindingContext(state.seed)) } };
    }
    if (restoring.writes.length > 0) return { ...state, restoring };
    const prompt = promptIn(encoded);
    const scene = state.scene!;
    const blend = scene.blend === null ? null : { ...scene.blend, from: scene.blend.from.map((share) => ({ ...share, prompt: prompt(share.plan) })) };
    return {
      ...state,
      scene: { ...scene, prompt: prompt(scene.plan), blend },
      writeUnder: restoring.under === null ? null : conditioningOf(restoring.under, prompt),
      restoring: null,
    };
  }
}

/** Of the next write; behind the last one, of the last chunk's and of the scene with what it goes over from. */
function wantedPlans({ scene }: ContinuationState, { writes, under }: Restoration): readonly ScenePlan[] {
  if (writes[0] !== undefined) return plansOf(writes[0].record);
  return [...(under === null ? [] : plansOf(under)), scene!.plan, ...(scene!.blend?.from ?? []).map(({ plan }) => plan)];
}

function missing(wanted: readonly ScenePlan[], encoded: readonly EncodedPlan[]): ScenePlan | undefined {
  return wanted.find((plan) => !encoded.some((other) => samePlan(other.plan, plan)));
}

function promptIn(encoded: readonly EncodedPlan[]): (plan: ScenePlan) => PromptBlocks {
  return (plan) => encoded.find((other) => samePlan(other.plan, plan))!.prompt;
}
