/**
 * Enter pressed → first changed picture painted, against a policy that takes changes up at chunk boundaries (and flushes too).
 *
 * The server's notice names the RTP time of the first picture that was made under the change; the probe says when that picture was painted.
 *
 * - `redirect_restart`: a hard redirect: the first picture of the new epoch.
 * - `redirect_steer`: a seamless one: the first picture under the new conditioning.
 */
import type { Page } from 'playwright-core';
import { setTimeout as delay } from 'node:timers/promises';
import { Figure } from './Figure.ts';
import { redirect, untilFound, untilRtpPainted } from './moments.ts';
import type { Notice } from '../test/e2e/DrivePage.ts';
import { alternate, between, LOAD, PROMPTS, rig, SAMPLES, type Rig } from './rig.ts';

/** The notice of the first picture that shows the change, then that picture on the glass. A held picture that is sent again has no notice. */
async function measure({ page }: Rig, prompt: string, shows: (notice: Notice, accepted: { readonly epoch: number; readonly conditioningVersion: number }) => boolean): Promise<{ ms: number; how: string; predictedMs: number | null }> {
  const turn = await redirect(page, prompt);
  const notice = await untilFound('the notice of the change', async () => (await page.notices()).find((one) => one.t >= turn.press.t && shows(one, turn.accepted)));
  const ms = await untilRtpPainted(page, turn.press, notice.rtp);
  const { how, predictedMs } = await turn.applied();
  return { ms, how, predictedMs };
}

const hard = (one: Rig, prompt: string) => measure(one, prompt, (notice, accepted) => notice.epoch >= accepted.epoch);
const seamless = (one: Rig, prompt: string) => measure(one, prompt, (notice, accepted) => notice.conditioningVersion >= accepted.conditioningVersion);

/** The smallest windows have no room for the switch. */
async function chooseSeamless(page: Page): Promise<void> {
  await page.setViewportSize({ width: 480, height: 640 });
  await page.getByRole('combobox').selectOption('seamless');
}

const BASELINE = `changes at chunk boundaries, flushing; same model, look-ahead and fence${LOAD === 0 ? '' : `, ${LOAD} other session(s) on both`}`;
const restart = new Figure({ figure: 'redirect_restart', unit: 'ms p95', statistic: 'p95', baselineName: BASELINE });
const steer = new Figure({ figure: 'redirect_steer', unit: 'ms p95', statistic: 'p95', baselineName: BASELINE });

const ours = await rig('ours', 'page', { load: LOAD, ear: false });
const baseline = await rig('chunk', 'page', { load: LOAD, ear: false });
try {
  for (const [figure, ask] of [[restart, hard], [steer, seamless]] as const) {
    if (ask === seamless) for (const { page } of [ours, baseline]) await chooseSeamless(page.probe.page);
    await alternate(ours, baseline, SAMPLES, async (side, one, index) => {
      await delay(between(400, 1_000));
      const { ms, how, predictedMs } = await ask(one, PROMPTS[index % PROMPTS.length]!);
      figure.add(side, ms, { how, predictedMs });
    });
  }
} finally {
  await ours.close();
  await baseline.close();
}
restart.print();
steer.print();
