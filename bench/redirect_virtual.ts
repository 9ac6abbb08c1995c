/**
 * Enter pressed → first changed frame sent, on a virtual clock: the engine that serves, the model's own words, unit times from a table, and a media side
 * that paces and fences as the server's does. Nothing of the machine is in it, so that the schedules alone are compared, and any number of samples is cheap.
 *
 * `SEGUE_BENCH_N`: samples a side (300). `SEGUE_BENCH_SPEED`: how many times faster than the table the device is (1). `SEGUE_BENCH_LOAD`: sessions beside it (0).
 * `SEGUE_BENCH_PICTURES=1`: the graphs run as well, and what is shown is judged: whether place, time and weather are as asked 1.5 s later.
 * `SEGUE_BENCH_WAYS`: some of the figures only, by name.
 */
import { seededRandom } from '../src/simulation/seeded_random.ts';
import { Classifier, PICTURE_HEIGHT, PICTURE_WIDTH, type Reading } from '../test/oracle/Classifier.ts';
import { summarise } from '../probe/derive.ts';
import type { SentFrame } from '../src/simulation/SimulatedViewer.ts';
import { Figure, type Side } from './Figure.ts';
import { VirtualDrive } from './virtual/VirtualDrive.ts';
import { PreviewProbe } from './virtual/PreviewProbe.ts';


const PICTURES = process.env['SEGUE_BENCH_PICTURES'] === '1';
const SAMPLES = Number(process.env['SEGUE_BENCH_N'] ?? (PICTURES ? 40 : 300));
const SPEED = Number(process.env['SEGUE_BENCH_SPEED'] ?? 1);
const LOAD = Number(process.env['SEGUE_BENCH_LOAD'] ?? 0);
/** Of the last key of what is typed to Enter, ms: a person looks at what they have written. */
const PAUSE_MS = { least: 300, most: 1_200 };
/** The page sends a draft when typing has rested so long. */
const DEBOUNCE_MS = 150;
/** Frames after the change until the one that is judged, as the model's evaluation judges: 1.5 s. */
const JUDGED = 19;
const SEED = 12_345;
const PICTURE_BYTES = PICTURE_WIDTH * PICTURE_HEIGHT * 3;

const PLACES = ['forest', 'desert', 'city', 'coast', 'snowy mountains'] as const;
const TIMES = ['dawn', 'day', 'dusk', 'night'] as const;
const WEATHERS = ['clear sky', 'rain', 'fog', 'snowfall'] as const;

interface Way {
  readonly figure: string;
  readonly seamless: boolean;
  readonly drafts: boolean;
  /** The first chunk that shows the change is made in fewer denoise steps; the baseline's isn't. */
  readonly previews?: boolean;
}

const WAYS: readonly Way[] = [
  { figure: 'redirect_restart', seamless: false, drafts: false },
  { figure: 'redirect_steer', seamless: true, drafts: false },
  { figure: 'redirect_preview', seamless: false, drafts: false, previews: true },
  { figure: 'redirect_preview_seamless', seamless: true, drafts: false, previews: true },
  { figure: 'redirect_speculation', seamless: false, drafts: true },
  { figure: 'redirect_speculation_seamless', seamless: true, drafts: true },
];

interface Measured {
  readonly ms: number;
  readonly from: string;
  /** Whether place, time and weather are as asked 1.5 s after the change; null where nothing is judged. */
  readonly adherence: number | null;
  /** Aspects of three that the first changed frame shows, and that a preview in its place would have shown. */
  readonly first: number | null;
  readonly preview: number | null;
  /** Mean difference of the two, grey levels. */
  readonly previewOff: number | null;
}

const classifier = PICTURES ? await Classifier.load() : null;
/** Every side sees the same presses. */
let random = seededRandom(SEED);
const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!;

async function side({ seamless, drafts, previews = false }: Way, policy: 'unit' | 'chunk'): Promise<Measured[]> {
  random = seededRandom(SEED);
  const drive = await VirtualDrive.open({ engine: { policy }, speed: SPEED, pictures: PICTURES, load: LOAD, previews: previews && policy === 'unit', seed: 3 });
  const measured: Measured[] = [];
  const preview = PICTURES && !drafts && policy === 'unit' ? new PreviewProbe(drive.worker, { pictureBytes: PICTURE_BYTES, framesPerChunk: 2 }) : null;
  try {
    await drive.run(1_500);
    for (let index = 0; index < SAMPLES; index++) {
      const asked = { place: pick(PLACES), time: pick(TIMES), weather: pick(WEATHERS) };
      const prompt = `${asked.place} at ${asked.time} with ${asked.weather}`;
      // What is judged is pictures: the story needn't flow for long between them.
      await drive.run((PICTURES ? 100 : 400) + random() * 400);
      await drive.run(DEBOUNCE_MS);
      if (drafts) drive.viewer.type(prompt, seamless);
      await drive.run(PAUSE_MS.least - DEBOUNCE_MS + random() * (PAUSE_MS.most - PAUSE_MS.least) * (PICTURES ? 0.3 : 1));
      measured.push(await sample(drive, preview, index + 1, prompt, asked, seamless));
    }
    const faults = drive.messages.filter(({ type }) => type === 'session.fault' || type === 'session.refused' || type === 'request.failed');
    if (faults.length > 0) throw new Error(`a schedule failed: ${JSON.stringify(faults[0])}`);
  } finally {
    await drive.close();
  }
  return measured;
}

async function sample(drive: VirtualDrive, preview: PreviewProbe | null, version: number, prompt: string, asked: Readonly<Record<'place' | 'time' | 'weather', string>>, seamless: boolean): Promise<Measured> {
  const { viewer, clock } = drive;
  viewer.sent.length = 0;
  const promoted = drive.traces('draft.promoted').length;
  const pressMs = clock.now();
  preview?.want(version);
  viewer.redirect(`r${version}`, prompt, seamless, version);
  const changed = (): SentFrame[] => viewer.sent.filter(({ chunk }) => chunk.conditioningVersion >= version);
  const wanted = PICTURES ? JUDGED : 1;
  for (let waited = 0; changed().length < wanted; waited += 20) {
    if (waited > 10_000) throw new Error(`nothing changed within 10 s of ${prompt}`);
    await drive.run(20);
  }
  const frames = changed().slice(0, wanted);
  await drive.run(120);
  const from = drive.traces('draft.promoted').slice(promoted).map(({ args }) => String(args?.['from']))[0] ?? 'plain';
  const right = (reading: Reading): number => (['place', 'time', 'weather'] as const).filter((aspect) => reading[aspect].replaceAll('_', ' ') === asked[aspect]).length;
  const early = preview?.picture ?? null;
  const first = frames[0]!.rgb.subarray(0, PICTURE_BYTES);
  const pictures = classifier === null ? [] : [first, frames.at(-1)!.rgb.subarray(0, PICTURE_BYTES), ...(early === null ? [] : [early])];
  const shown = ((await classifier?.read(pictures)) ?? []).map(right);
  drive.messages.length = 0;
  return {
    ms: frames[0]!.atMs - pressMs,
    from,
    adherence: shown[1] === undefined ? null : Number(shown[1] === 3),
    first: shown[0] ?? null,
    preview: shown[2] ?? null,
    previewOff: early === null ? null : mean(Array.from(early, (value, at) => Math.abs(value - first[at]!))),
  };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

const suffix = `${PICTURES ? '_judged' : ''}${SPEED === 1 ? '' : `_speed${SPEED}`}${LOAD === 0 ? '' : `_load${LOAD}`}`;
const baselines = new Map<boolean, Measured[]>();
const only = process.env['SEGUE_BENCH_WAYS']?.split(',');
for (const way of WAYS.filter(({ figure }) => only === undefined || only.includes(figure))) {
  const figure = new Figure({ figure: `${way.figure}_virtual${suffix}`, unit: 'ms p95', statistic: 'p95', baselineName: 'changes at chunk boundaries, flushing; same model, look-ahead, fence and load' });
  const ours = await side(way, 'unit');
  const baseline = baselines.get(way.seamless) ?? (await side({ ...way, drafts: false }, 'chunk'));
  baselines.set(way.seamless, baseline);
  const record = (which: Side, { ms, ...context }: Measured): void => figure.add(which, ms, { ...context });
  for (const one of ours) record('ours', one);
  for (const one of baseline) record('baseline', one);
  const [a, b] = [summarise(ours.map(({ ms }) => ms)), summarise(baseline.map(({ ms }) => ms))];
  const shares = (list: readonly Measured[], of: 'adherence' | 'first' | 'preview' | 'previewOff'): number | null => {
    const values = list.flatMap((one) => one[of] ?? []);
    return values.length === 0 ? null : Number(mean(values).toFixed(4));
  };
  const hits = Object.fromEntries(['frame', 'steps', 'words', 'plain'].map((from) => [from, ours.filter((one) => one.from === from).length]));
  console.log(
    JSON.stringify({
      ...figure.line(),
      p50: { ours: round(a.p50), baseline: round(b.p50), ratio: round(b.p50 / a.p50) },
      p95: { ours: round(a.p95), baseline: round(b.p95), ratio: round(b.p95 / a.p95) },
      ...(way.drafts ? { hits } : {}),
      ...(PICTURES ? { adherence: { ours: shares(ours, 'adherence'), baseline: shares(baseline, 'adherence'), firstFrame: { ours: shares(ours, 'first'), baseline: shares(baseline, 'first'), preview: shares(ours, 'preview'), previewOff: shares(ours, 'previewOff') } } } : {}),
    }),
  );
}

function round(value: number): number {
  return Number(value.toPrecision(4));
}
