import { writeFileSync } from 'node:fs';
import sharp from 'sharp';
import { createKernels } from '../engine/model/kernels/create_kernels.ts';
import { PromptProcessor } from '../engine/model/processors/PromptProcessor.ts';
import { loadModelSpec } from '../engine/model/spec/load_model_spec.ts';
import { SpecError } from '../engine/model/spec/spec_error.ts';
import { OnnxWorker } from '../engine/workers/OnnxWorker.ts';
import { continuationModel, driveLanguage } from '../realtime-programs/drive_model.ts';
import { REPLAY_SESSION, StoryReplay, type ReplayedChunk } from '../realtime-programs/StoryReplay.ts';
import { SessionReader } from '../storage/SessionReader.ts';
import { StorageError } from '../storage/StorageError.ts';
import { readDatabase } from '../storage/open_database.ts';
import { SharedPool } from '../streams/shared_pool.ts';
import type { KeptChunk, KeptHead, StoryFingerprint } from '../streams/storage_messages.ts';
import { CommandError, EXIT, type Output } from './CommandError.ts';
import { stretchesOf, type Stretch } from './story_stretches.ts';

export interface ReplayWish {
  readonly sessionId: string;
  /** Frame of the story, from 0; null: all of the story is compared, and no picture is written. */
  readonly frame: number | null;
  /** Of a story that was gone back in; null: the branch in force. */
  readonly branch: number | null;
  /** Where the picture goes. */
  readonly out: string | null;
  readonly storageDirectory: string;
  readonly modelDirectory: string;
}

/** Chunks read at a time: a megabyte. */
const READ_CHUNKS = 32;

/**
 * Computes a kept session again with the model and compares it with what was kept, bit for bit, up to the first difference. Reads only.
 * Resolves with the exit code. Rejects with {@link CommandError} for what can't be done.
 */
export async function replayCommand(wish: ReplayWish, output: Output): Promise<number> {
  const database = orUnusable(() => readDatabase(wish.storageDirectory));
  try {
    const reader = new SessionReader(database);
    const head = orUnusable(() => reader.heads()).find(({ sessionId }) => sessionId === wish.sessionId);
    if (head === undefined) throw new CommandError(EXIT.unusable, `no session ${wish.sessionId} is kept in ${wish.storageDirectory}`);
    const spec = orUnusable(() => loadModelSpec(wish.modelDirectory));
    const { weightsVersion } = spec.checkpoint;
    const spans = reader.chunkWeights(wish.sessionId, wish.branch ?? undefined);
    const others = spans.filter((span) => span.weightsVersion !== weightsVersion);
    const makers = new Set(spans.length === 0 ? [head.fingerprint.weightsVersion] : spans.map((span) => span.weightsVersion));
    if (head.fingerprint.modelId !== spec.modelId || !makers.has(weightsVersion)) {
      throw new CommandError(EXIT.unusable, `the session was made with ${head.fingerprint.modelId} ${[...makers].join(', ')}, ${wish.modelDirectory} is ${spec.modelId} ${weightsVersion}: only the same weights can make it again`);
    }
    const frameChunk = wish.frame === null ? null : Math.floor(wish.frame / spec.framesPerChunk);
    const branch = branchOf(reader, wish);
    const extent = reader.extent(wish.sessionId, branch);
    // What other weights made can't be compared: on these it would only be near.
    const mine = extent.chunks.filter((chunk) => !others.some(({ from, to }) => from <= chunk && chunk <= to));
    for (const { from, to, weightsVersion: theirs } of others) output.line(`chunks ${from} to ${to} were made with ${theirs}: only those weights can make them again, they are left out`);
    const stretches = stretchesOf({ ...extent, chunks: mine }, frameChunk);
    if (stretches.length === 0) throw new CommandError(EXIT.unusable, notThere(mine, wish.frame));
    const worker = new OnnxWorker({ id: 'replay', calibrationRuns: 1, spare: false });
    try {
      const { fingerprint: machine, modelId } = await worker.loadModel(wish.modelDirectory);
      if (machine !== head.fingerprint.machine) output.line('made on another machine, runtime or batch policy: it may differ by rounding');
      const kernels = createKernels(spec);
      const model = continuationModel(spec, kernels, driveLanguage(PromptProcessor.load(spec)));
      const video = SharedPool.create(spec.format.width * spec.format.height * 3, 1);
      const audio = SharedPool.create(8 * Math.ceil(spec.format.audioSampleRate / spec.format.framesPerSecond / 4), 1);
      worker.attach(REPLAY_SESSION, { video: video.descriptor, audio: audio.descriptor });
      const replay = new StoryReplay({ worker, modelId, model, kernels: Object.values(kernels), seed: head.seed });
      const compared = await compare(replay, reader, head, stretches, branch, output);
      const last = compared.last;
      if (wish.frame !== null && last?.chunk === frameChunk) await writePicture(await replay.picture(last, wish.frame % spec.framesPerChunk, video), spec.format, wish, output);
      return report(compared, mine.length, head.fingerprint, machine, wish.frame !== null, output);
    } finally {
      await worker.close();
    }
  } finally {
    database.close();
  }
}

/** Undefined: the one in force. @throws {CommandError} naming the branches that there are. */
function branchOf(reader: SessionReader, { sessionId, branch }: ReplayWish): number | undefined {
  if (branch === null) return undefined;
  const known = [0, ...reader.branches(sessionId).map((other) => other.branch)];
  if (!known.includes(branch)) throw new CommandError(EXIT.unusable, `no branch ${branch}: the story has ${known.length === 1 ? 'only branch 0' : `branches ${known.join(', ')}`}`);
  return branch;
}

interface Compared {
  readonly chunks: number;
  readonly seeded: number;
  readonly different: ReplayedChunk | null;
  readonly last: ReplayedChunk | null;
}

/** Until the first chunk that differs: everything after it follows from another past. With a frame, to that frame. */
async function compare(replay: StoryReplay, reader: SessionReader, { sessionId }: KeptHead, stretches: readonly Stretch[], branch: number | undefined, output: Output): Promise<Compared> {
  let [chunks, seeded] = [0, 0];
  let last: ReplayedChunk | null = null;
  for (const { from, to, snapshot } of stretches) {
    output.line(`chunks ${from} to ${to}, from ${snapshot === null ? 'the beginning' : `the snapshot at ${snapshot}`}`);
    for await (const chunk of replay.run(read(reader, sessionId, from, to, branch), snapshot === null ? null : reader.snapshot(sessionId, snapshot, branch))) {
      last = chunk;
      chunks += 1;
      if (chunk.seeded) seeded += 1;
      if (!chunk.same) return { chunks, seeded, different: chunk, last };
    }
  }
  return { chunks, seeded, different: null, last };
}

function report({ chunks, seeded, different }: Compared, kept: number, { machine }: StoryFingerprint, here: string, partly: boolean, output: Output): number {
  if (different !== null) {
    const { chunk, difference, kept: record } = different;
    output.line(`first difference: chunk ${chunk} (media time ${record.start90k} to ${record.end90k}), a latent is off by ${difference}${machine === here ? '; on the same machine only a step that shared its batch may differ' : ''}`);
    return EXIT.different;
  }
  output.line(`${chunks} chunks, bit-equal${seeded === 0 ? '' : ` (${seeded} of them given: start frames)`}`);
  if (!partly && kept > chunks) output.line(`${kept - chunks} more are kept, to which no snapshot leads`);
  return EXIT.ok;
}

async function writePicture(rgb: Uint8Array, { width, height }: { readonly width: number; readonly height: number }, { frame, out, sessionId }: ReplayWish, output: Output): Promise<void> {
  const file = out ?? `${sessionId}-${frame}.png`;
  const png = await sharp(rgb, { raw: { width, height, channels: 3 } }).png().toBuffer();
  try {
    writeFileSync(file, png);
  } catch (error) {
    throw new CommandError(EXIT.unusable, `${file} can't be written (${(error as NodeJS.ErrnoException).code ?? String(error)})`);
  }
  output.line(`frame ${frame}: ${file}`);
}

function* read(reader: SessionReader, sessionId: string, from: number, to: number, branch: number | undefined): Generator<KeptChunk> {
  for (let at = from; at <= to; at += READ_CHUNKS) yield* reader.chunks(sessionId, at, Math.min(to, at + READ_CHUNKS - 1), branch);
}

function notThere(chunks: readonly number[], frame: number | null): string {
  const [first, last] = [chunks[0], chunks.at(-1)];
  if (first === undefined) return 'nothing of its story is kept';
  return frame === null ? 'none of what is kept can be computed: no snapshot leads to it' : `frame ${frame} can't be computed: chunks ${first} to ${last} are kept, and it is not among them or no snapshot leads to it`;
}

function orUnusable<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof StorageError || error instanceof SpecError) throw new CommandError(EXIT.unusable, error.message);
    throw error;
  }
}
