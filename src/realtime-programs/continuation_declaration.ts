import type { MemoryBudget } from '../engine/memory/BlockPool.ts';
import type { MemoryTag } from '../engine/model/work.ts';
import type { LoopInterruption, ProgramSpec } from '../engine/programs/ProgramSpec.ts';
import type { MediaDemand } from '../engine/scheduler/AdmissionController.ts';
import type { ContinuationComponents, ContinuationModel } from './continuation_model.ts';

/** Tokens of a typical plan: what a redirect is predicted with before the director has said anything. */
const PLAN_TOKENS = 6;
/** Keys and values of the director alive at once: the state's, and those that its unit writes. A wish that replaces another waits for the other's unit. */
const DIRECTOR_CACHES = 2;

/** Chunks that may be alive beside the window: three behind what is generated, the one in flight, one being rewound from, one spare. */
const CHUNKS_BESIDE_WINDOW = 6;
/** Scenes alive at once: of the versions kept, of the chunk in flight, the next one, one being encoded, and those that a blend goes over from. */
const SCENES_ALIVE = 11;

/** Of a past that changes scenes as often as somebody who plays with it: every second. Where it is more often, less of the past is kept. */
const CHUNKS_A_SCENE = 6;
/** What interruption means in each loop, by node. */
const INTERRUPTION = {
  director: { unit: 'token', interrupt: 'abandoned', redirect: 'abandoned', says: 'The plan is given up at the next token, and so is the narration; what was told stays told.' },
  encoder: { unit: 'plan_embedding', interrupt: 'abandoned', redirect: 'abandoned', says: 'The plan that was being encoded is withdrawn with the words that asked for it.' },
  start: { unit: 'start_frames', interrupt: 'remade', redirect: 'abandoned', says: 'A story of which nothing was seen begins anew.' },
  video: { unit: 'denoise_step', interrupt: 'remade', redirect: 'steered', says: 'The chunk in flight is given up at the next step, and made anew from the frame that was seen.' },
  picture: { unit: 'frame', interrupt: 'remade', redirect: 'remade', says: 'Frames that were not presented are made anew.' },
  sound: { unit: 'frame_of_sound', interrupt: 'remade', redirect: 'remade', says: 'Goes back with its frame, to the sample.' },
  image: { unit: 'picture_latents', interrupt: 'kept', redirect: 'kept', says: 'The picture that a story starts from is read all the same; words that come meanwhile change what it shows.' },
  incoming: { unit: 'picture_latents', interrupt: 'abandoned', redirect: 'abandoned', says: 'What came in is let go of, and the next chunk that comes in is made.' },
} as const satisfies Readonly<Record<string, LoopInterruption>>;

/** A transformed video is recoloured for its scene before it is noised: what is in flight for another is of no use. */
const TRANSFORMED_VIDEO: LoopInterruption = { ...INTERRUPTION.video, redirect: 'abandoned', says: 'The chunk in flight is given up at the next step; the next that comes in is made.' };

/** Nodes and edges of a video continuation over one model instance. */
export function continuationSpec({ loops, components, image }: ContinuationModel, { transform = false, aloud = false } = {}): ProgramSpec {
  const node = (kind: string, ...used: string[]) => ({ kind: 'model_loop', loopKind: kind, components: used }) as const;
  return {
    programId: transform ? 'video_transform' : aloud ? 'omni_continuation' : 'video_continuation',
    kind: 'realtime',
    nodes: {
      director: node(loops.director.kind, components.directorPrefill, components.directorStep),
      encoder: node(loops.encoder.kind, components.encoder),
      start: node(loops.start.kind, components.start),
      video: node(loops.video.kind, components.denoise, components.write, ...(components.adapted === undefined ? [] : [components.adapted.denoise, components.adapted.write])),
      picture: node(loops.picture.kind, components.picture),
      sound: node(loops.sound.kind, components.sound),
      ...(image === null ? {} : { image: node(image.loop.kind, image.component) }),
      ...(image === null || !transform ? {} : { videoIn: { kind: 'stream', stream: 'frames' } as const, incoming: node(image.loop.kind, image.videoComponent) }),
      choice: { kind: 'control', control: 'branch' },
      videoOut: { kind: 'stream', stream: 'video' },
      audioOut: { kind: 'stream', stream: 'audio' },
      textOut: { kind: 'stream', stream: 'text' },
    },
    interruption: {
      ...Object.fromEntries((['director', 'encoder', 'start', 'picture', 'sound'] as const).map((name) => [name, INTERRUPTION[name]])),
      video: transform ? TRANSFORMED_VIDEO : INTERRUPTION.video,
      ...(image === null ? {} : { image: INTERRUPTION.image }),
      ...(image === null || !transform ? {} : { incoming: INTERRUPTION.incoming }),
    },
    edges: [
      { kind: 'control', from: 'director', to: 'encoder' },
      { kind: 'stream', from: 'director', to: 'textOut' },
      { kind: 'cache', from: 'encoder', to: 'choice' },
      { kind: 'control', from: 'choice', to: 'start' },
      { kind: 'control', from: 'choice', to: 'video' },
      { kind: 'tensor', from: 'start', to: 'video' },
      ...(image === null ? [] : ([{ kind: 'control', from: 'image', to: 'director' }, { kind: 'tensor', from: 'image', to: 'video' }] as const)),
      ...(transform ? ([{ kind: 'stream', from: 'videoIn', to: 'image' }, { kind: 'stream', from: 'videoIn', to: 'incoming' }, { kind: 'tensor', from: 'start', to: 'incoming' }, { kind: 'tensor', from: 'incoming', to: 'video' }] as const) : []),
      { kind: 'tensor', from: 'video', to: 'video', acrossChunks: true },
      { kind: 'tensor', from: 'video', to: 'picture' },
      { kind: 'tensor', from: 'video', to: 'sound' },
      { kind: 'tensor', from: 'sound', to: 'sound', acrossChunks: true },
      { kind: 'stream', from: 'picture', to: 'videoOut' },
      { kind: 'stream', from: 'sound', to: 'audioOut' },
    ],
  };
}

/** Units of a pass of the director that are still to come, up to its plan, once `tokens` have been made. */
export function directorPass({ directorPrefill, directorStep }: ContinuationComponents, tokens = 0): readonly string[] {
  const steps = Array<string>(Math.max(0, PLAN_TOKENS - Math.max(1, tokens))).fill(directorStep);
  return tokens === 0 ? [directorPrefill, ...steps] : steps;
}

/** What a session of it needs to keep its rate. */
export function continuationDemand(model: ContinuationModel, chunkMs: number, transform = false): MediaDemand {
  const { components, steps, framesPerChunk, windowChunks } = model;
  const times = (component: string, count: number) => Array<string>(count).fill(component);
  const memory: Record<MemoryTag, number> = { weights: 0, kv: 0, activations: 0, staging: 0 };
  const keep = (component: string, count: number): void => {
    const bytes = model.bytesOf(component);
    for (const tag of Object.keys(memory) as MemoryTag[]) memory[tag] += (bytes[tag] ?? 0) * count;
  };
  keep(components.write, windowChunks + CHUNKS_BESIDE_WINDOW);
  // Beside the chunk in flight and what follows from it: the latents of each chunk until it is committed, and what it was pinned to.
  keep(components.denoise, 3 * CHUNKS_BESIDE_WINDOW + steps);
  keep(components.start, 2);
  if (model.image !== null) keep(model.image.component, 1);
  // Entries that versions still look like, and the frames that are being encoded.
  if (transform) keep(components.start, CHUNKS_BESIDE_WINDOW);
  if (transform && model.image !== null) keep(model.image.videoComponent, CHUNKS_BESIDE_WINDOW);
  keep(components.encoder, SCENES_ALIVE);
  keep(components.sound, (CHUNKS_BESIDE_WINDOW + 1) * framesPerChunk);
  keep(components.directorStep, DIRECTOR_CACHES);
  keep(components.picture, 1);
  return {
    chunkComponents: [...(transform && model.image !== null ? times(model.image.videoComponent, framesPerChunk) : []), ...times(components.denoise, steps), components.write, ...times(components.picture, framesPerChunk), ...times(components.sound, framesPerChunk)],
    chunkMs,
    redirectComponents: [...directorPass(components), components.encoder, ...times(components.denoise, steps), components.picture, components.sound],
    memory,
    chunkMemory: pastChunkMemory(model),
    // A chunk beyond the look-ahead: less would stop the picture while media still holds the frames before.
    minSlots: { video: framesPerChunk + 1, audio: framesPerChunk + 1 },
  };
}

/** What a chunk of the past holds beside its neighbours: its keys and values, latents and what they were pinned to, what the synthesiser carried, and a share of a scene. */
function pastChunkMemory({ components, framesPerChunk, bytesOf }: ContinuationModel): MemoryBudget {
  const memory: Record<MemoryTag, number> = { weights: 0, kv: 0, activations: 0, staging: 0 };
  const alive: Readonly<Record<string, number>> = { [components.write]: 1, [components.denoise]: 2, [components.sound]: framesPerChunk, [components.encoder]: 1 / CHUNKS_A_SCENE };
  for (const [component, count] of Object.entries(alive)) for (const [tag, bytes] of Object.entries(bytesOf(component))) memory[tag as MemoryTag] += Math.ceil(bytes * count);
  return memory;
}
