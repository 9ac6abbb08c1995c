/** The storage thread: the one place that touches the database. Speaks with the control thread over its parent port and with the engine over the port it is given. */
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { monotonicClock } from '../observe/clock.ts';
import { createLogger } from '../observe/log.ts';
import type { FromStorage, ToStorage } from '../streams/storage_messages.ts';
import type { RetentionLimits } from './Retention.ts';
import { SessionStorage } from './SessionStorage.ts';

export interface StorageThreadData {
  /** Absolute path. */
  readonly directory: string;
  readonly retention: RetentionLimits;
  readonly enginePort: MessagePort;
  readonly logLevel?: string;
}

/** The engine has ended before the storage is told to: its port closes at once. */
const ENGINE_GONE_MS = 200;

const { directory, retention, enginePort, logLevel = 'info' } = workerData as StorageThreadData;
const control = parentPort;
if (control === null) throw new TypeError('storage_thread is the entry of a worker thread');
const log = createLogger({ level: logLevel, name: 'segue-storage' });
const tell = (writer: 'control' | 'engine', message: FromStorage): void => (writer === 'control' ? control : enginePort).postMessage(message);

try {
  const storage = new SessionStorage({ directory, retention, clock: monotonicClock, log, tell });
  enginePort.on('message', (message: ToStorage) => storage.receive('engine', message));
  const engineGone = new Promise<void>((resolve) => enginePort.once('close', resolve));
  control.on('message', (message: ToStorage) => {
    if (message.type !== 'drain') return storage.receive('control', message);
    // What the engine wrote last may still be on its way: its port closes behind it.
    const watchdog = setTimeout(() => enginePort.close(), ENGINE_GONE_MS);
    void engineGone.then(() => {
      clearTimeout(watchdog);
      storage.receive('control', message);
      end();
    });
  });
} catch (error) {
  tell('control', { type: 'failed', message: error instanceof Error ? error.message : String(error) });
  end();
}

/** Nothing keeps the thread alive after that. */
function end(): void {
  enginePort.close();
  control!.close();
}
