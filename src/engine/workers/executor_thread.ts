/** Entry of an executor thread: one device share. Started by `OnnxWorker`; its only business is to answer its port. */
import { parentPort, workerData } from 'node:worker_threads';
import type { ExecutorStart, ToExecutor } from './executor_messages.ts';
import { OnnxExecutor } from './OnnxExecutor.ts';

const port = parentPort;
if (port === null) throw new Error('executor_thread.ts is an entry of a worker thread');

const executor = new OnnxExecutor(workerData as ExecutorStart, (message) => {
  port.postMessage(message);
  // Nothing computes any more and nothing listens: the thread ends by itself.
  if (message.type === 'stopped') port.close();
});
port.on('message', (message: ToExecutor) => void executor.receive(message));
