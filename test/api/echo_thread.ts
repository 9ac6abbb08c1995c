/** A thread for the tests of ThreadLink: echoes, dies or stays when told. */
import { parentPort, workerData } from 'node:worker_threads';

const port = parentPort!;
const { greeting, exitAtOnce } = workerData as { readonly greeting: string; readonly exitAtOnce?: boolean };
if (exitAtOnce === true) process.exit(3);
port.postMessage(greeting);
port.on('message', (message: string) => {
  if (message === 'die') throw new Error('told to die');
  if (message === 'end') port.close();
  else port.postMessage(`echo ${message}`);
});
