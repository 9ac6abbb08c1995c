/**
 * The media thread. `workerData` is a {@link MediaThreadData}; control messages travel over the parent port, chunks over the
 * engine port. Fences where a request arrives, so that no other thread is waited for.
 */
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { monotonicClock } from '../observe/clock.ts';
import { createLogger } from '../observe/log.ts';
import type { ControlToMedia, EngineToMedia } from '../streams/messages.ts';
import { MediaServer } from './MediaServer.ts';
import { loadNative } from './native.ts';
import type { MediaOptions } from './options.ts';

export interface MediaThreadData {
  readonly enginePort: MessagePort;
  readonly options: MediaOptions;
}

if (parentPort === null) throw new Error('media_thread.ts runs as a worker thread');
const control = parentPort;
const { enginePort, options } = workerData as MediaThreadData;
const log = createLogger({ level: options.logLevel, name: 'segue-media' });

const codecs = loadNative();
if (!codecs.raiseThreadPriority()) log.debug('media threads run at ordinary priority');

const server = new MediaServer({
  clock: monotonicClock,
  codecs,
  options,
  sinks: {
    toEngine: (message) => enginePort.postMessage(message),
    toControl: (message) => control.postMessage(message),
  },
  log,
});

control.on('message', (message: ControlToMedia) => {
  server.fromControl(message);
  if (message.type === 'media.drain') {
    void server.drain().then(() => {
      enginePort.close();
      control.close();
    });
  }
});
enginePort.on('message', (event: EngineToMedia) => server.fromEngine(event));
control.postMessage({ type: 'media.ready' });
