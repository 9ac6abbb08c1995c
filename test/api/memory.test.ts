import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { ServerRig, type Created } from './server_rig.ts';

interface View {
  readonly version: number;
  readonly inForce: unknown;
  readonly turns: readonly { readonly turn: number; readonly prompt: string; readonly imported: boolean; readonly edited: string | null }[];
}

describe('the prompt memory by REST', () => {
  let rig: ServerRig;
  let session: Created;
  const path = (more = ''): string => `/v1/sessions/${session.id}/memory${more}`;
  const view = async (method: string, more = '', body?: unknown): Promise<View> => {
    const answer = await rig.call(method, path(more), body === undefined ? {} : { body });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body as unknown as View;
  };

  before(async () => {
    rig = await ServerRig.start();
    session = await rig.create({ prompt: 'snowy', memory: { turns: [{ prompt: 'mountains', attributes: { place: 'mountains' } }] } });
    await rig.join(session);
  });
  after(async () => assert.equal(await rig.close(), true));

  it('is exported, corrected, shortened, and imported as it is', async () => {
    const exported = await view('GET');
    assert.deepEqual(exported.turns.map(({ prompt, imported }) => [prompt, imported]), [['mountains', true], ['snowy', false]]);
    assert.deepEqual([exported.version, exported.inForce], [1, { prompt: 'snowy', attributes: { place: 'mountains' }, adapter: null }]);
    const { turn } = exported.turns[0]!;
    const edited = await view('PATCH', `/turns/${turn}`, { prompt: 'hills' });
    assert.ok(edited.turns[0]?.prompt === 'hills' && edited.turns[0].edited !== null);
    const imported = await view('PUT', '', edited);
    assert.deepEqual(imported.turns.map(({ prompt, imported: brought }) => [prompt, brought]), [['hills', true], ['snowy', true], ['snowy', false]]);
    const shorter = await view('DELETE', `/turns/${imported.turns[0]!.turn}`);
    assert.deepEqual(shorter.turns.map(({ prompt }) => prompt), ['snowy', 'snowy']);
  });

  it('refuses by the table', async () => {
    const last = (await view('GET')).turns.at(-1)!.turn;
    const { body: tokens } = await rig.call('POST', `/v1/sessions/${session.id}/tokens`, { body: { roles: ['watch'] } });
    const watcher = tokens['clientToken'] as unknown as string;
    for (const [method, more, body, code, status, token] of [
      ['PATCH', `/turns/${last}`, { prompt: 'x' }, 'conflict', 409],
      ['DELETE', `/turns/${last}`, undefined, 'conflict', 409],
      ['DELETE', '/turns/99999', undefined, 'turn_not_found', 404],
      ['DELETE', '/turns/x', undefined, 'bad_request', 400],
      ['PATCH', '/turns/0', {}, 'bad_request', 400],
      ['PUT', '', { turns: [] }, 'bad_request', 400],
      ['PUT', '', { version: 2, turns: [{ prompt: 'x' }] }, 'bad_request', 400],
      ['PUT', '', { turns: [{ prompt: 'x', said: 1 }] }, 'bad_request', 400],
      ['PUT', '', { turns: [{ attributes: { mood: 'sad' } }] }, 'plan_not_usable', 422],
      ['PUT', '', { turns: [{ prompt: 'qwertz' }] }, 'prompt_not_understood', 422],
      ['PUT', '', { turns: [{ prompt: 'snowy' }] }, 'forbidden', 403, watcher],
      ['PATCH', `/turns/${last}`, { prompt: 'x' }, 'forbidden', 403, watcher],
    ] as const) {
      const answer = await rig.call(method, path(more), { ...(body === undefined ? {} : { body }), ...(token === undefined ? {} : { token }) });
      assert.deepEqual([answer.code, answer.status], [code, status], `${method} ${more} ${JSON.stringify(body)}`);
    }
    assert.equal((await rig.call('GET', path(), { token: watcher })).status, 200);
    const redirected = await rig.call('POST', `/v1/sessions/${session.id}/redirect`, { body: { plan: { mood: 'sad' } } });
    assert.equal(redirected.code, 'plan_not_usable');
  });
});
