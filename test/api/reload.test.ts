import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { EngineToControl } from '../../src/streams/messages.ts';
import { CARD } from '../sessions/scripted_links.ts';
import { KEY, ServerRig } from './server_rig.ts';

describe('a reload of the model by REST', () => {
  let rig: ServerRig;
  const served = CARD.weightsVersion;
  before(async () => {
    rig = await ServerRig.start();
  });
  after(async () => {
    CARD.weightsVersion = served;
    assert.equal(await rig.close(), true);
  });

  /** The engine answers what it is asked next. */
  async function reload(answer: Omit<Extract<EngineToControl, { type: 'model.reloaded' }>, 'type' | 'request'>, id = CARD.modelId) {
    const before = rig.engine.sent.length;
    const asked = rig.call('POST', `/v1/models/${id}/reload`, { token: KEY });
    for (let waited = 0; waited < 200; waited++) {
      const message = rig.engine.sent.slice(before).find(({ type }) => type === 'model.reload');
      if (message?.type === 'model.reload') {
        rig.engine.emit({ type: 'model.reloaded', request: message.request, ...answer });
        break;
      }
      await delay(5);
      if (id !== CARD.modelId) break;
    }
    return asked;
  }

  it('tells what serves now, and so does the list of models', async () => {
    const { status, body } = await reload({ reloaded: { weightsVersion: 'w-2', previous: served, sessions: 3, heldMs: 7.4 } });
    assert.deepEqual([status, body], [200, { id: CARD.modelId, weightsVersion: 'w-2', previousWeightsVersion: served, changed: true, sessions: 3, heldMs: 7 }]);
    const { body: listed } = await rig.call('GET', '/v1/models', { token: KEY });
    assert.equal((listed as unknown as { models: { weightsVersion: string }[] }).models[0]!.weightsVersion, 'w-2');
  });

  it('what can not be used is refused with the file at fault, and the older weights are still told', async () => {
    const { status, body } = await reload({ error: { code: 'model_not_usable', message: 'weights/a.onnx: checksum', param: 'files.weights/a.onnx.sha256', retryable: false } });
    assert.equal(status, 422);
    assert.equal(JSON.stringify(body).includes('files.weights/a.onnx.sha256'), true);
    const { body: listed } = await rig.call('GET', '/v1/models', { token: KEY });
    assert.equal((listed as unknown as { models: { weightsVersion: string }[] }).models[0]!.weightsVersion, 'w-2');
  });

  it('needs the API key, and a model that is served', async () => {
    assert.equal((await reload({}, 'other')).status, 404);
    const session = await rig.create();
    assert.equal((await rig.call('POST', `/v1/models/${CARD.modelId}/reload`, { token: session.clientToken })).status, 403);
  });
});
