/** The voice thread: decodes voices and judges where in them there is speech. One model for all streams; packets in the order they came. */
import { parentPort } from 'node:worker_threads';
import { loadNative } from '../native.ts';
import { SpeechModel } from './SpeechModel.ts';
import { SpeechStream } from './SpeechStream.ts';
import type { FromVoice, ToVoice } from './voice_messages.ts';

if (parentPort === null) throw new Error('voice_thread.ts runs as a worker thread');
const port = parentPort;
const tell = (message: FromVoice): void => port.postMessage(message);
const streams = new Map<number, SpeechStream>();
/** Bounded by the sender, who waits for `judged`. */
let work = Promise.resolve();

const loading = SpeechModel.load();
loading.then(
  () => tell({ type: 'ready' }),
  () => undefined, // told by the first packet
);

async function take(message: ToVoice): Promise<void> {
  const model = await loading;
  switch (message.type) {
    case 'packet': {
      const stream = streams.get(message.stream) ?? new SpeechStream(model, loadNative());
      streams.set(message.stream, stream);
      tell({ type: 'judged', stream: message.stream, probabilities: await stream.take(message.codec, message.data) });
      return;
    }
    case 'forget':
      streams.get(message.stream)?.close();
      streams.delete(message.stream);
      return;
    case 'end':
      for (const stream of streams.values()) stream.close();
      await model.close();
      port.close();
  }
}

port.on('message', (message: ToVoice) => {
  work = work.then(() => take(message)).catch((error: unknown) => {
    tell({ type: 'failed', message: error instanceof Error ? error.message : String(error) });
    port.close();
  });
});
