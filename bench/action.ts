/**
 * `action`: an arrow key pressed → first picture painted that was made under it, against a policy that reads actions at chunk boundaries. Which
 * picture that is, the server's notice says (`actionSequence`); when it was painted, the probe.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Figure } from './Figure.ts';
import { untilFound, untilRtpPainted } from './moments.ts';
import { alternate, between, LOAD, rig, SAMPLES, type Rig } from './rig.ts';

async function pressArrow({ page }: Rig, key: 'ArrowLeft' | 'ArrowRight'): Promise<number> {
  const since = await page.probe.now();
  await page.probe.page.keyboard.down(key);
  try {
    const press = await page.press(`key:${key}`, since);
    const sent = await untilFound('the action sent', async () => (await page.actions()).find((action) => action.t >= press.t && action.steer !== 0));
    const notice = await untilFound('a picture made under the action', async () =>
      (await page.notices()).find((one) => one.t >= press.t && one.actionSequence >= sent.sequence),
    );
    return await untilRtpPainted(page, press, notice.rtp);
  } finally {
    await page.probe.page.keyboard.up(key);
  }
}

const action = new Figure({ figure: 'action', unit: 'ms p95', statistic: 'p95', baselineName: `actions read at chunk boundaries; same model and look-ahead${LOAD === 0 ? '' : `, ${LOAD} other session(s) on both`}` });
const ours = await rig('ours', 'page', { stamp: false, load: LOAD, ear: false });
const baseline = await rig('chunk', 'page', { stamp: false, load: LOAD, ear: false });
try {
  await alternate(ours, baseline, SAMPLES, async (side, one, index) => {
    await delay(between(300, 700));
    action.add(side, await pressArrow(one, index % 2 === 0 ? 'ArrowLeft' : 'ArrowRight'));
  });
} finally {
  await ours.close();
  await baseline.close();
}
action.print();
