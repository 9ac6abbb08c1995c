/**
 * Enter pressed → first changed picture painted, against a policy that takes changes up at chunk boundaries (and flushes too).
 *
 * - `redirect_restart`: a hard redirect. The change is the first new picture of the new epoch, read from the stamp.
 * - `redirect_steer`: a seamless one. The change is the picture from whose RTP time on the server's notice names the new conditioning.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Figure } from './Figure.ts';
import { redirect, untilFound, untilNewPicture, untilRtpPainted } from './moments.ts';
import { alternate, between, PROMPTS, rig, SAMPLES, type Rig } from './rig.ts';

async function hard({ page }: Rig, prompt: string): Promise<{ ms: number; how: string; predictedMs: number | null }> {
  const turn = await redirect(page, prompt);
  const ms = await untilNewPicture(page, turn.press, turn.accepted.epoch);
  const { how, predictedMs } = await turn.applied();
  return { ms, how, predictedMs };
}

async function seamless({ page }: Rig, prompt: string): Promise<{ ms: number; how: string; predictedMs: number | null }> {
  const turn = await redirect(page, prompt);
  const version = turn.accepted.conditioningVersion;
  const notice = await untilFound('the notice of the change', async () => (await page.notices()).find((one) => one.t >= turn.press.t && one.conditioningVersion >= version));
  const ms = await untilRtpPainted(page, turn.press, notice.rtp);
  const { how, predictedMs } = await turn.applied();
  return { ms, how, predictedMs };
}

const BASELINE = 'changes at chunk boundaries, flushing; same model, look-ahead and fence';
const restart = new Figure({ figure: 'redirect_restart', unit: 'ms p95', statistic: 'p95', baselineName: BASELINE });
const steer = new Figure({ figure: 'redirect_steer', unit: 'ms p95', statistic: 'p95', baselineName: BASELINE });

const ours = await rig('ours', 'page');
const baseline = await rig('chunk', 'page');
try {
  for (const [figure, measure] of [[restart, hard], [steer, seamless]] as const) {
    if (measure === seamless) for (const { page } of [ours, baseline]) await page.probe.page.getByRole('button', { name: 'Blend' }).click();
    await alternate(ours, baseline, SAMPLES, async (side, one, index) => {
      await delay(between(400, 1_000));
      const { ms, how, predictedMs } = await measure(one, PROMPTS[index % PROMPTS.length]!);
      figure.add(side, ms, { how, predictedMs });
    });
  }
} finally {
  await ours.close();
  await baseline.close();
}
restart.print();
steer.print();
