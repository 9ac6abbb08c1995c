/** The live programs of `drive`, as a back end meets them. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { ApiClient } from './api_client.ts';
import { TestServer } from './server.ts';
import { StreamClient } from './StreamClient.ts';

describe('programs', { timeout: 120_000 }, () => {
  let server: TestServer;

  before(async () => {
    server = await TestServer.start();
  });
  after(async () => {
    const exit = await server?.stop();
    assert.equal(exit?.code, 0, server?.tail());
  });

  it('programs say what they take in and what interruption means, and strength is validated', async () => {
    const api = new ApiClient(server);
    const { body } = await api.call('GET', '/v1/programs');
    const { programs } = body as { programs: { id: string; takesVideo: boolean; interruption: Record<string, { unit: string }> }[] };
    assert.deepEqual(programs.map(({ id, takesVideo }) => [id, takesVideo]), [['drive', false], ['drive_omni', false], ['drive_transform', true]]);
    assert.ok(programs.every(({ interruption }) => interruption['director']!.unit === 'token' && interruption['video']!.unit === 'denoise_step'));
    for (const [wish, param] of [
      [{ program: 'drive_transform', transform: { strength: 1.5 } }, 'transform.strength'],
      [{ program: 'drive_transform', transform: { strength: 0 } }, 'transform.strength'],
      [{ program: 'drive', transform: { strength: 0.5 } }, 'transform'],
    ] as const) {
      const refused = await api.call('POST', '/v1/sessions', { body: wish });
      assert.equal(refused.status, 400, JSON.stringify(refused.body));
      assert.equal(refused.error?.param, param, JSON.stringify(refused.body));
    }
    const session = await api.createSession({ program: 'drive_transform', transform: { strength: 0.5 } });
    await api.close(session.id);
  });

  it('drive_omni tells its plan token by token before the world changes, and is abandoned in the midst of it', async () => {
    const api = new ApiClient(server);
    const session = await api.createSession({ program: 'drive_omni', prompt: 'coast at dusk', seed: 4 });
    const client = await StreamClient.join(server.url, session.id, session.clientToken);
    await client.until('pictures', () => client.packets.length > 20);
    const said = (re: string): string[] => client.messages.flatMap((message) => (message.type === 'text.delta' && message.stream === 'plan' && message.re === re ? [message.text] : []));
    await client.request({ type: 'redirect', id: 'a', prompt: 'city at night with rain' });
    assert.ok(said('a').length >= 3, said('a').join('|'));
    const whole = client.messages.find((message) => message.type === 'text.complete' && message.stream === 'plan' && message.re === 'a');
    assert.ok(whole?.type === 'text.complete');
    assert.match(said('a').join(''), /^city night .*; city night rain$/);
    const applied = client.messages.findIndex((message) => message.type === 'applied' && message.re === 'a');
    assert.ok(client.messages.findIndex((message) => message.type === 'text.delta' && message.stream === 'plan') < applied);
    client.send({ type: 'redirect', id: 'b', prompt: 'forest at dawn' });
    client.send({ type: 'interrupt', id: 'c' });
    await client.until('the interrupt applied', (message) => message.type === 'applied' && message.re === 'c');
    await client.until('the end of the redirect, told once it is on disk', (message) => message.type === 'superseded' && message.re === 'b');
    const told = said('b').length;
    await new Promise((resolve) => setTimeout(resolve, 500));
    assert.equal(said('b').length, told, 'not another token');
    assert.equal(client.messages.some((message) => message.type === 'text.complete' && message.re === 'b'), false);
    await client.close();
    await api.close(session.id);
  });
});
