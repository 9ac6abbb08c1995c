/**
 * Enter pressed → first changed picture painted, against a policy that takes changes up at chunk boundaries (and flushes too).
 *
 * The server's notice names the RTP time of the first picture that was made under the change; the probe says when that picture was painted.
 *
 * - `redirect_restart`: a hard redirect: the first picture of the new epoch.
 * - `redirect_preview`: the same, and the first chunk of the new world is made in fewer denoise steps than the model declares; the baseline's isn't.
 * - `redirect_speculation`: a hard one whose words rested for a moment before Enter, on both sides: ours works on them meanwhile.
 * - `redirect_steer`: a seamless one: the first picture under the new conditioning.
 */
import type { Page } from 'playwright-core';
import { setTimeout as delay } from 'node:timers/promises';
import { Figure } from './Figure.ts';
import { redirect, untilFound, untilRtpPainted } from './moments.ts';
import type { Notice } from '../test/e2e/DrivePage.ts';
import { alternate, between, LOAD, PROMPTS, rig, SAMPLES, type Rig } from './rig.ts';

/** The notice of the first picture that shows the change, then that picture on the glass. A held picture that is sent again has no notice. */
async function measure({ page }: Rig, prompt: string, restMs: number, shows: (notice: Notice, accepted: { readonly epoch: number; readonly conditioningVersion: number }) => boolean): Promise<{ ms: number; how: string; predictedMs: number | null }> {
  const turn = await redirect(page, prompt, restMs);
  const notice = await untilFound('the notice of the change', async () => (await page.notices()).find((one) => one.t >= turn.press.t && shows(one, turn.accepted)));
  const ms = await untilRtpPainted(page, turn.press, notice.rtp);
  const { how, predictedMs } = await turn.applied();
  return { ms, how, predictedMs };
}

const isNew = (notice: Notice, accepted: { readonly epoch: number }): boolean => notice.epoch >= accepted.epoch;
const hard = (one: Rig, prompt: string) => measure(one, prompt, 0, isNew);
/** Somebody looks at what they have written. */
const rested = (one: Rig, prompt: string) => measure(one, prompt, between(400, 1_200), isNew);
const seamless = (one: Rig, prompt: string) => measure(one, prompt, 0, (notice, accepted) => notice.conditioningVersion >= accepted.conditioningVersion);

/** The smallest windows have no room for the switch. */
async function chooseSeamless(page: Page): Promise<void> {
  await page.setViewportSize({ width: 480, height: 640 });
  await page.getByRole('combobox').selectOption('seamless');
}

const BASELINE = `changes at chunk boundaries, flushing; same model, look-ahead and fence${LOAD === 0 ? '' : `, ${LOAD} other session(s) on both`}`;
const restart = new Figure({ figure: 'redirect_restart', unit: 'ms p95', statistic: 'p95', baselineName: BASELINE });
const preview = new Figure({ figure: 'redirect_preview', unit: 'ms p95', statistic: 'p95', baselineName: BASELINE });
const speculation = new Figure({ figure: 'redirect_speculation', unit: 'ms p95', statistic: 'p95', baselineName: BASELINE });
const steer = new Figure({ figure: 'redirect_steer', unit: 'ms p95', statistic: 'p95', baselineName: BASELINE });

async function sample(figure: Figure, ask: typeof hard, ours: Rig, baseline: Rig): Promise<void> {
  await alternate(ours, baseline, SAMPLES, async (side, one, index) => {
    await delay(between(400, 1_000));
    const { ms, how, predictedMs } = await ask(one, PROMPTS[index % PROMPTS.length]!);
    figure.add(side, ms, { how, predictedMs });
  });
}

const baseline = await rig('chunk', 'page', { load: LOAD, ear: false });
try {
  // One after the other: a third server beside the two would be felt by both.
  const previewing = await rig('preview', 'page', { load: LOAD, ear: false });
  try {
    await sample(preview, hard, previewing, baseline);
  } finally {
    await previewing.close();
  }
  const ours = await rig('ours', 'page', { load: LOAD, ear: false });
  try {
    for (const [figure, ask] of [[restart, hard], [speculation, rested], [steer, seamless]] as const) {
      if (ask === seamless) for (const { page } of [ours, baseline]) await chooseSeamless(page.probe.page);
      await sample(figure, ask, ours, baseline);
    }
  } finally {
    await ours.close();
  }
} finally {
  await baseline.close();
}
restart.print();
preview.print();
speculation.print();
steer.print();
