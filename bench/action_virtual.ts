/**
 * Arrow key pressed → first frame sent that was made under it, on a virtual clock: see `redirect_virtual.ts`.
 *
 * `SEGUE_BENCH_N`: presses a side (300). `SEGUE_BENCH_SPEED`: how many times faster than the table the device is (1). `SEGUE_BENCH_LOAD`: sessions beside it (0).
 */
import { summarise } from '../probe/derive.ts';
import { seededRandom } from '../src/simulation/seeded_random.ts';
import { Figure, type Side } from './Figure.ts';
import { VirtualDrive } from './virtual/VirtualDrive.ts';

const SAMPLES = Number(process.env['SEGUE_BENCH_N'] ?? 300);
const SPEED = Number(process.env['SEGUE_BENCH_SPEED'] ?? 1);
const LOAD = Number(process.env['SEGUE_BENCH_LOAD'] ?? 0);
/** A key is held so long, and so long is nothing held before the next, ms. */
const HELD_MS = { least: 400, most: 700 };
const POLL_MS = 5;

/** Every side sees the same presses. */
async function side(policy: 'unit' | 'chunk'): Promise<number[]> {
  const random = seededRandom(12_345);
  const between = (): number => HELD_MS.least + random() * (HELD_MS.most - HELD_MS.least);
  const drive = await VirtualDrive.open({ engine: { policy }, speed: SPEED, pictures: false, load: LOAD, seed: 3 });
  const measured: number[] = [];
  try {
    await drive.run(1_500);
    for (let index = 0; index < SAMPLES; index++) {
      measured.push(await press(drive, index % 2 === 0 ? -1 : 1));
      await drive.run(between());
      drive.viewer.steer(0);
      await drive.run(between());
      drive.messages.length = 0;
    }
  } finally {
    await drive.close();
  }
  return measured;
}

async function press(drive: VirtualDrive, direction: -1 | 1): Promise<number> {
  const { viewer, clock } = drive;
  viewer.sent.length = 0;
  const pressMs = clock.now();
  const sequence = viewer.steer(direction);
  for (let waited = 0; waited < 5_000; waited += POLL_MS) {
    const felt = viewer.sent.find(({ chunk }) => chunk.actionSequence >= sequence);
    if (felt !== undefined) return felt.atMs - pressMs;
    await drive.run(POLL_MS);
  }
  throw new Error('no frame was made under the action within 5 s');
}

const suffix = `${SPEED === 1 ? '' : `_speed${SPEED}`}${LOAD === 0 ? '' : `_load${LOAD}`}`;
const figure = new Figure({ figure: `action_virtual${suffix}`, unit: 'ms p95', statistic: 'p95', baselineName: 'actions read at chunk boundaries; same model, look-ahead and load' });
const sides: Readonly<Record<Side, readonly number[]>> = { ours: await side('unit'), baseline: await side('chunk') };
for (const which of ['ours', 'baseline'] as const) for (const ms of sides[which]) figure.add(which, ms);
const [ours, baseline] = [summarise(sides.ours), summarise(sides.baseline)];
const round = (value: number): number => Number(value.toPrecision(4));
console.log(JSON.stringify({ ...figure.line(), p50: { ours: round(ours.p50), baseline: round(baseline.p50), ratio: round(baseline.p50 / ours.p50) }, p95: { ours: round(ours.p95), baseline: round(baseline.p95), ratio: round(baseline.p95 / ours.p95) } }));
