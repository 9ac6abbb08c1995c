/** An interrupt, and a redirect, in the midst of a unit of each loop: what the program declares is what happens. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { WorkUnitBatch } from '../../../src/engine/model/work.ts';
import { continuationSpec } from '../../../src/realtime-programs/continuation_declaration.ts';
import { continuationModel } from '../../../src/realtime-programs/drive_model.ts';
import { LANGUAGE, scriptedModel, UNIT_MS } from './scripted_model.ts';
import { Simulation } from './Simulation.ts';
import type { SimulatedSession } from './SimulatedSession.ts';

/** Where it is interrupted: a unit of this component, after the words that lead to it. */
interface Moment {
  readonly name: string;
  readonly loop: string;
  readonly component: string;
  /** Which unit of it, counted from the redirect. */
  readonly unit: number;
}

const MOMENTS: readonly Moment[] = [
  { name: 'director prefill', loop: 'director', component: 'director_prefill', unit: 0 },
  { name: 'director token, of the plan', loop: 'director', component: 'director_step', unit: 0 },
  { name: 'director token, of the narration', loop: 'director', component: 'director_step', unit: 2 },
  { name: 'encoder', loop: 'encoder', component: 'text_encoder', unit: 0 },
  { name: 'start frames of a cut', loop: 'start', component: 'start_bank', unit: 0 },
  { name: 'denoise step', loop: 'video', component: 'denoise_step', unit: 0 },
  { name: 'last denoise step', loop: 'video', component: 'denoise_step', unit: 1 },
  { name: 'decode', loop: 'picture', component: 'vae_decode', unit: 0 },
  { name: 'sound', loop: 'sound', component: 'audio_synth', unit: 0 },
  { name: 'write', loop: 'video', component: 'clean_write', unit: 0 },
];

class Rig {
  readonly simulation: Simulation;
  readonly session: SimulatedSession;
  readonly begun: WorkUnitBatch[] = [];
  #from = 0;

  constructor() {
    this.simulation = new Simulation({ aloud: true, outcome: (batch, deviceMs) => (this.begun.push(batch), { deviceMs, answer: 'ok' }) });
    this.session = this.simulation.open();
  }

  /** A redirect to scene 3, in the way in which the moment comes about. */
  ask({ component }: Pick<Moment, 'component'>): void {
    this.#from = this.begun.length;
    this.simulation.request(this.session, 'r', component === 'start_bank' ? { request: 'cut', prompt: 'scene 3' } : { request: 'redirect', prompt: 'scene 3', seamless: false });
  }

  /** Steps until the unit has begun, counted from what was asked last, and on into its midst. */
  async into({ component, unit }: Pick<Moment, 'component' | 'unit'>): Promise<void> {
    const from = this.#from;
    for (let waited = 0; ; waited += 0.1) {
      if (this.begun.slice(from).filter((batch) => batch.component === component).length > unit) break;
      assert.ok(waited < 2000, `no unit of ${component}`);
      await this.simulation.run(0.1);
    }
    await this.simulation.run(UNIT_MS[component]! / 3);
  }

  said(stream: string, requestId: string): string {
    return this.session.texts.filter((text) => text.stream === stream && text.requestId === requestId && !text.complete).map(({ text }) => text).join('');
  }

  whole(stream: string, requestId: string): boolean {
    return this.session.texts.some((text) => text.stream === stream && text.requestId === requestId && text.complete);
  }

  count(component: string): number {
    return this.begun.filter((batch) => batch.component === component).length;
  }
}

describe('interrupted in each loop', () => {
  for (const moment of MOMENTS) {
    test(`${moment.name}: an interrupt abandons what is asked for and not seen, and the story goes on from what was seen`, async () => {
      const rig = new Rig();
      await rig.simulation.run(2000);
      rig.ask(moment);
      await rig.into(moment);
      const words = { plan: rig.said('plan', 'r'), narration: rig.said('narration', 'r') };
      const told = rig.session.texts.length;
      const begun = rig.begun.length;
      const held = rig.session.held90k;
      rig.simulation.request(rig.session, 'i', { request: 'interrupt' });
      const epoch = rig.session.words.epoch;
      await rig.simulation.run(1500);
      assert.equal(rig.begun.length, begun, 'no unit begins: the one in flight was the last');
      assert.equal(rig.session.texts.length, told, 'and nothing more is told, not even what it would have said');
      assert.deepEqual({ plan: rig.said('plan', 'r'), narration: rig.said('narration', 'r') }, words, 'what was told stays told');
      const tokens = rig.count('director_step') + rig.count('director_prefill');
      rig.simulation.request(rig.session, 'go', { request: 'resume' });
      await rig.simulation.run(1500);
      const first = rig.session.videoFrames.find((frame) => frame.epoch === epoch)!;
      assert.ok(first !== undefined && first.start90k <= Math.max(held, 7500), 'from what was seen');
      const applied = rig.session.answers.get('r')!.some(({ type }) => type === 'request.applied');
      if (!applied) assert.equal(rig.count('director_step') + rig.count('director_prefill'), tokens, 'the words that were withdrawn are not thought of again');
      assert.ok(rig.session.videoFrames.filter((frame) => frame.epoch === epoch).length > 6);
      await rig.simulation.finish();
    });

    test(`${moment.name}: other words take the place of those before`, async () => {
      const rig = new Rig();
      await rig.simulation.run(2000);
      rig.ask(moment);
      await rig.into(moment);
      rig.simulation.request(rig.session, 'other', { request: 'redirect', prompt: 'scene 4', seamless: false });
      const told = rig.session.texts.length;
      await rig.simulation.run(3000);
      assert.equal(rig.session.texts.slice(told).some(({ requestId }) => requestId === 'r'), false, 'not another word of it');
      assert.equal(rig.session.answers.get('other')!.at(-1)!.type, 'request.applied');
      assert.equal(rig.said('plan', 'other'), '24', 'told while it was thought');
      assert.equal(rig.session.texts.findLast(({ stream }) => stream === 'plan')!.text, 'scene 4');
      assert.equal(rig.said('narration', 'other') + (rig.session.texts.findLast(({ stream }) => stream === 'narration')?.text ?? ''), '11 12');
      await rig.simulation.finish();
    });
  }

  test('each loop of each live program is declared, and each is interrupted here or comes in from outside', () => {
    const { spec, kernels } = scriptedModel();
    const model = continuationModel(spec, kernels, LANGUAGE);
    const loops = new Set(MOMENTS.map(({ loop }) => loop));
    for (const program of [continuationSpec(model), continuationSpec(model, { aloud: true }), continuationSpec(model, { transform: true })]) {
      for (const [name, { kind }] of Object.entries(program.nodes)) {
        if (kind !== 'model_loop') continue;
        assert.ok(program.interruption?.[name], `${program.programId}: ${name}`);
        assert.ok(loops.has(name) || name === 'image' || name === 'incoming', name); // these two: image_start.test.ts, transform.test.ts
      }
    }
  });

  test('a plan is told token by token before anything of it is generated, and only then whole', async () => {
    const rig = new Rig();
    await rig.simulation.run(2000);
    const begun = rig.begun.length;
    rig.simulation.request(rig.session, 'r', { request: 'redirect', prompt: 'scene 3 4', seamless: false });
    await rig.into({ component: 'text_encoder', unit: 1 });
    assert.equal(rig.begun.slice(begun).some(({ component }) => component === 'denoise_step'), false);
    assert.equal(rig.said('plan', 'r'), '23; 24', 'both passes of the director');
    assert.ok(rig.whole('plan', 'r'));
    assert.equal(rig.whole('narration', 'r'), false, 'narration streams while it shows');
    await rig.simulation.run(2000);
    assert.ok(rig.whole('narration', 'r'));
    await rig.simulation.finish();
  });
});
