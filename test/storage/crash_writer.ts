/** A process that writes until it is killed, and says on its output what was acknowledged. */
import { writeSync } from 'node:fs';
import { monotonicClock } from '../../src/observe/clock.ts';
import { createLogger } from '../../src/observe/log.ts';
import { SessionStorage } from '../../src/storage/SessionStorage.ts';
import type { StorageWrite } from '../../src/streams/storage_messages.ts';
import { chunk, session } from './storage_rig.ts';

const [directory, sessionId, first] = process.argv.slice(2) as [string, string, string];
const writes: StorageWrite[] = [];
const storage = new SessionStorage({
  directory,
  retention: { maxAgeMs: 86_400_000, sessionBytes: 1e9 },
  clock: monotonicClock,
  log: createLogger({ level: 'error' }),
  tell: (_writer, message) => {
    if (message.type === 'stored') writeSync(1, `stored ${message.through}\n`);
    else if (message.type === 'durable') for (const { chunk: index } of message.positions) writeSync(1, `durable ${index}\n`);
  },
});
let number = 0;
const write = (next: StorageWrite): void => {
  writes.push(next);
  storage.receive('engine', { type: 'write', number: ++number, write: next });
};
write(session(sessionId));
writeSync(1, 'ready\n');
let index = Number(first);
setInterval(() => {
  write(chunk(sessionId, index++));
  if (index % 5 === 0) write({ type: 'snapshot', sessionId, branch: 0, snapshot: { chunk: index - 1, data: '{}', tensors: [{ name: 'k', dims: [300_000], data: new Float32Array(300_000).fill(index).buffer }] } });
  write({ type: 'event', sessionId, event: { sequence: index, type: 'tick', at: '', data: '{}' } });
}, 4);
