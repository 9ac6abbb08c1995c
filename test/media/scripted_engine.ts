/**
 * A scripted engine on a thread of its own: synthetic pictures and a sine, a few frames ahead of the timeline, a pause after each
 * fence as if a prompt were being encoded, then the story goes on from the presented position under the new epoch.
 * It posts to the test: what it saw of the epoch word and when each frame was ready.
 */
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { monotonicMs } from '../../src/observe/clock.ts';
import { frameDuration90k, type MediaFormat } from '../../src/streams/media_time.ts';
import type { MediaToEngine, SessionChannels } from '../../src/streams/messages.ts';
import type { MediaChunk } from '../../src/streams/media_events.ts';
import { SessionWords } from '../../src/streams/session_words.ts';
import { SharedPool } from '../../src/streams/shared_pool.ts';

export interface ScriptedEngineData {
  readonly port: MessagePort;
  readonly sessionId: string;
  readonly channels: SessionChannels;
  readonly format: MediaFormat;
  /** From a fence to the first frame of its epoch. */
  readonly restartMs: number;
  readonly framesAhead: number;
}

export type ScriptedEngineReport =
  | { readonly type: 'epoch'; readonly epoch: number; readonly atMs: number }
  | { readonly type: 'ready'; readonly epoch: number; readonly start90k: number; readonly wallMs: number };

const { port, sessionId, channels, format, restartMs, framesAhead } = workerData as ScriptedEngineData;
const words = new SessionWords(channels.words);
const video = SharedPool.attach(channels.video);
const audio = SharedPool.attach(channels.audio);
const duration = frameDuration90k(format);
const samplesPerFrame = (format.audioSampleRate * duration) / 90_000;

let epoch = words.epoch;
let resumeAtMs = 0;
let next90k = 0;
let presented90k = 0;
let sequence = 0;
let chunk = 0;
let phase = 0;

port.on('message', (message: MediaToEngine) => {
  if (message.type === 'media.presented' && message.epoch === epoch) presented90k = message.media90k;
});

function paint(rgb: Uint8Array, frame: number): void {
  const { width, height } = format;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = (y * width + x) * 3;
      rgb[at] = (x + frame * 3) & 0xff;
      rgb[at + 1] = (y * 2 + frame) & 0xff;
      rgb[at + 2] = (128 + 64 * Math.sin((x + y) / 20 + frame / 5)) | 0;
    }
  }
}

function post(): void {
  const pictureSlot = video.acquire();
  const soundSlot = audio.acquire();
  if (pictureSlot === null || soundSlot === null) {
    if (pictureSlot !== null) video.release(pictureSlot);
    if (soundSlot !== null) audio.release(soundSlot);
    return;
  }
  const frame = Math.round(next90k / duration);
  paint(video.bytes(pictureSlot), frame);
  const bytes = audio.bytes(soundSlot);
  const samples = new Int16Array(bytes.buffer, bytes.byteOffset, samplesPerFrame);
  for (let i = 0; i < samplesPerFrame; i++) samples[i] = Math.round(8000 * Math.sin((phase += (2 * Math.PI * 440) / format.audioSampleRate)));
  const base = {
    type: 'media.chunk' as const,
    revision: 0,
    sessionId,
    start90k: next90k,
    end90k: next90k + duration,
    stage: 'final' as const,
    chunk: chunk >> 1,
    frameInChunk: chunk & 1,
    step: 0,
    events: { started: [], active: [], completed: [] },
    origin: 'generated' as const,
    epoch,
    conditioningVersion: epoch,
    actionSequence: words.action.sequence,
    weightsVersion: 'scripted',
    adapterVersions: {},
  };
  const chunks: MediaChunk[] = [
    { ...base, streamId: 'sound', kind: 'audio', codec: 'pcm16', slot: soundSlot, samples: samplesPerFrame, sequence: sequence++ },
    { ...base, streamId: 'picture', kind: 'video', codec: 'rgb24', slot: pictureSlot, sequence: sequence++ },
  ];
  for (const event of chunks) port.postMessage(event);
  report({ type: 'ready', epoch, start90k: next90k, wallMs: performance.timeOrigin + performance.now() });
  next90k += duration;
  chunk++;
}

function report(message: ScriptedEngineReport): void {
  parentPort!.postMessage(message);
}

const timer = setInterval(() => {
  const now = monotonicMs();
  if (words.epoch !== epoch) {
    epoch = words.epoch;
    report({ type: 'epoch', epoch, atMs: now });
    resumeAtMs = now + restartMs;
    next90k = presented90k;
    chunk = (chunk + 3) & ~1;
  }
  if (now < resumeAtMs) return;
  while (video.used < framesAhead && video.canAcquire() && audio.canAcquire()) {
    const before = next90k;
    post();
    if (next90k === before) break;
  }
}, 4);
parentPort!.on('message', () => {
  clearInterval(timer);
  port.close();
  parentPort!.close();
});
