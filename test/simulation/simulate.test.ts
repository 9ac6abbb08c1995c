/** Scenarios on the virtual clock: the engine that serves, over a table of costs. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import type { SpecError } from '../../src/engine/model/spec/spec_error.ts';
import { readScenario, type Scenario } from '../../src/simulation/scenario.ts';
import { simulate } from '../../src/simulation/simulate.ts';
import { UnitCosts } from '../../src/simulation/unit_costs.ts';

const MODEL = new URL('../../models/drive', import.meta.url).pathname;
const EVENING = new URL('../../examples/scenarios/evening.yaml', import.meta.url).pathname;
const COMMAND = new URL('../../src/cli/segue.ts', import.meta.url).pathname;
const COSTS = { director_prefill: 1.2, director_step: 0.7, text_encoder: 1, start_bank: 0.2, denoise_step: 5, clean_write: 5, vae_decode: 6.5, audio_synth: 0.6 };

const directory = mkdtempSync(join(tmpdir(), 'segue-scenario-'));
after(() => rmSync(directory, { recursive: true }));

const scenario = (changes: Partial<Scenario>): Scenario => ({ model: MODEL, costs: COSTS, servers: 1, devicesPerServer: 1, seconds: 20, seed: 3, populations: [{ tenant: 't', count: 2 }], ...changes });

function file(name: string, text: string): string {
  const path = join(directory, name);
  writeFileSync(path, text);
  return path;
}

describe('simulate', () => {
  it('gives the same report twice', async () => {
    const one = scenario({ jitter: 0.2, populations: [{ tenant: 'a', count: 3, steering: { everySeconds: 0.5 }, redirects: { everySeconds: 3, drafted: 0.5, seamless: 0.3 }, interrupts: { everySeconds: 5, pausesSeconds: 0.5 } }] });
    assert.deepEqual(await simulate(one), await simulate(one));
  });

  it('whoever was let in misses nothing where units take what they were measured to take', async () => {
    const report = await simulate(scenario({ populations: [{ tenant: 't', count: 12, steering: { everySeconds: 0.7 }, redirects: { everySeconds: 4 } }] }));
    assert.equal(report.sessions.came, 12);
    assert.ok(report.sessions.admitted >= 3 && report.sessions.turnedAway === 12 - report.sessions.admitted, JSON.stringify(report.sessions));
    assert.equal(report.frames.late, 0);
    assert.ok(report.frames.sent >= report.sessions.admitted * 12 * 18, `${report.frames.sent} frames`);
    assert.ok(report.redirects.hard!.count >= 6 && report.actions!.count >= 20);
    assert.deepEqual(report.failures, {});
    assert.equal(report.units.failed, 0);
    assert.ok(report.fairness.least! > 0.98 && report.fairness.jain! > 0.999, JSON.stringify(report.fairness));
    assert.ok(report.utilisation > 0.4 && report.utilisation <= 1);
  });

  it('who is patient comes in when somebody leaves', async () => {
    const crowd = { tenant: 't', count: 10, staysSeconds: 4 } as const;
    const [impatient, patient] = [await simulate(scenario({ populations: [crowd] })), await simulate(scenario({ populations: [{ ...crowd, patienceSeconds: 15 }] }))];
    assert.ok(patient.sessions.admitted > impatient.sessions.admitted, `${patient.sessions.admitted} against ${impatient.sessions.admitted}`);
    assert.ok(patient.sessions.waited!.max >= 2000);
  });

  it('changes inside a chunk are seen sooner than at its boundary', async () => {
    const people = [{ tenant: 't', count: 3, steering: { everySeconds: 0.7 }, redirects: { everySeconds: 3, seamless: 1 } }];
    const [unit, chunk] = [await simulate(scenario({ seconds: 60, populations: people })), await simulate(scenario({ seconds: 60, populations: people, engine: { policy: 'chunk' } }))];
    assert.ok(unit.actions!.p95 * 1.5 < chunk.actions!.p95, `${unit.actions!.p95} against ${chunk.actions!.p95}`);
    assert.ok(unit.redirects.seamless!.p95 < chunk.redirects.seamless!.p95);
  });

  it('reads costs from a deployment card, and says what a table lacks', async () => {
    const cost = Object.entries(COSTS).flatMap(([component, ms]) => [1, 2, 4].map((batch) => ({ component, shapeKey: component, batch, p50Ms: ms * batch, p95Ms: ms * batch })));
    const card = file('card.json', JSON.stringify({ cost }));
    const report = await simulate(scenario({ seconds: 5, costs: card }));
    assert.ok(report.frames.sent > 0);
    const { vae_decode: _, ...less } = COSTS;
    await assert.rejects(simulate(scenario({ costs: less })), (error: SpecError) => error.fault.problem === 'component without a cost' && error.fault.expected === 'vae_decode');
    await assert.rejects(simulate(scenario({ costs: { ...COSTS, unheard_of: 1 } })), (error: SpecError) => error.fault.actual === 'unheard_of');
    await assert.rejects(simulate(scenario({ costs: file('none.json', '{}') })), (error: SpecError) => error.fault.problem === 'no list of costs');
  });
});

describe('costs of a batch', () => {
  const costs = UnitCosts.read({ ...COSTS, denoise_step: { 1: 5, 4: 14 } }, { components: Object.fromEntries(Object.keys(COSTS).map((component) => [component, {} as never])) });
  it('between sizes that were measured they are interpolated, beyond them one more costs what it cost before', () => {
    assert.deepEqual([1, 2, 3, 4, 8].map((batch) => costs.batchMs('denoise_step', batch)), [5, 8, 11, 14, 26]);
  });
});

describe('a scenario file', () => {
  it('the example runs, and its report is a line of JSON', async () => {
    const short = file('short.yaml', `model: ${MODEL}\ncosts: ${JSON.stringify(COSTS)}\nservers: 1\ndevicesPerServer: 1\nseconds: 3\nseed: 1\npopulations: [{ tenant: a, count: 1 }]\n`);
    const out = await new Promise<string>((resolve, reject) => execFile(process.execPath, [COMMAND, 'simulate', short, '--json'], (error, stdout) => (error === null ? resolve(stdout) : reject(error))));
    assert.equal((JSON.parse(out) as { sessions: { admitted: number } }).sessions.admitted, 1);
    assert.equal(readScenario(EVENING).populations.length, 3);
  });

  it('a fault is told with its line, its key and both operands', () => {
    const path = file('wrong.yaml', `model: m\ncosts: {}\nservers: none\ndevicesPerServer: 1\nseconds: 5\nseed: 1\npopulations: [{ tenant: a, count: 1 }]\n`);
    assert.throws(() => readScenario(path), (error: SpecError) => error.fault.line === 3 && error.fault.key === 'servers' && error.fault.actual === 'none');
    assert.throws(() => readScenario(join(directory, 'nowhere.yaml')), (error: SpecError) => error.fault.actual === 'ENOENT');
  });
});
