import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ThreadLink } from '../../src/api/ThreadLink.ts';
import { createLogger } from '../../src/observe/log.ts';

function start(workerData: object): { link: ThreadLink<string, string>; messages: string[]; crash: Promise<Error>; message: (text: string) => Promise<void> } {
  const link = new ThreadLink<string, string>({ name: 'echo', url: new URL('./echo_thread.ts', import.meta.url), workerData, log: createLogger({ level: 'silent' }) });
  const messages: string[] = [];
  const { promise, resolve } = Promise.withResolvers<Error>();
  let wake = (): void => undefined;
  link.listen({ message: (message) => (messages.push(message), wake()), crashed: resolve });
  const message = async (text: string): Promise<void> => {
    while (!messages.includes(text)) await new Promise<void>((woken) => (wake = woken));
  };
  return { link, messages, crash: promise, message };
}

describe('thread link', () => {
  it('carries messages both ways, and ends by itself when asked', async () => {
    const { link, messages, message } = start({ greeting: 'hello' });
    await message('hello');
    assert.ok(link.send('a'));
    await message('echo a');
    assert.deepEqual(messages, ['hello', 'echo a']);
    link.send('end');
    await link.close(5_000);
    assert.equal(link.send('b'), false);
    await link.close(0);
  });

  it('a thread that throws is a crash with its error', async () => {
    const { link, crash, message } = start({ greeting: 'hello' });
    await message('hello');
    link.send('die');
    assert.equal((await crash).message, 'told to die');
    assert.equal(link.send('a'), false);
    await link.close(0);
  });

  it('a thread that exits is a crash with its code', async () => {
    const { crash } = start({ greeting: '', exitAtOnce: true });
    assert.match((await crash).message, /echo thread ended with code 3/);
  });

  it('a thread that ends by itself when told to is no crash', async () => {
    const { link, crash, message } = start({ greeting: 'hello' });
    await message('hello');
    link.expectEnd();
    link.send('end');
    while (link.send('ping')) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal(await Promise.race([crash.then(() => 'crash'), new Promise((resolve) => setImmediate(resolve, 'none'))]), 'none');
  });

  it('a thread that stays is stopped after its time', async () => {
    const { link, message } = start({ greeting: 'hello' });
    await message('hello');
    await link.close(20);
    assert.equal(link.send('a'), false);
  });
});
