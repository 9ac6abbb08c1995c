/**
 * What of the old world still leaves the server, and still reaches the eye, after Interrupt was pressed.
 *
 * - `old_packets_after_fence`, `old_frames_painted`: ours against a server that clears its queues without epochs
 * - `interrupt_to_last_old_frame`: ours against whole-request scheduling of the same model; a plain client on both, so that no client's freezing helps
 */
import { setTimeout as delay } from 'node:timers/promises';
import { oldMediaAfter } from '../probe/derive.ts';
import { Figure } from './Figure.ts';
import { redirect, untilNewPicture } from './moments.ts';
import { alternate, between, PROMPTS, rig, SAMPLES, type Rig } from './rig.ts';

/** How long old pictures are waited for: a request of the baseline is 2 s long. */
const LOOK_MS = { ours: 500, queue: 800, request: 3_500 } as const;

async function interruptOnce({ page }: Rig, lookMs: number): Promise<{ frames: number; blocks: number; lastMs: number }> {
  await delay(between(300, 1_200));
  const { press, epoch } = await page.interrupt();
  await delay(lookMs);
  const until = await page.probe.mark('looked');
  await page.probe.drain();
  const old = oldMediaAfter(page.probe.samples, press, epoch, until);
  const turn = await redirect(page, PROMPTS[Math.floor(Math.random() * PROMPTS.length)]!);
  await untilNewPicture(page, turn.press, turn.accepted.epoch);
  return { frames: old.frames.length, blocks: old.blocks.length, lastMs: old.lastOldFrameMs };
}

async function staleOf({ server }: Rig): Promise<number> {
  return (await server.metrics()).sum('segue_media_stale_packets_total');
}

const packets = new Figure({ figure: 'old_packets_after_fence', unit: 'packets', statistic: 'sum', baselineName: 'a server that clears queues, without epochs' });
const frames = new Figure({ figure: 'old_frames_painted', unit: 'frames', statistic: 'sum', baselineName: 'a server that clears queues, without epochs, and a plain client' });
const last = new Figure({ figure: 'interrupt_to_last_old_frame', unit: 'ms p99', statistic: 'p99', baselineName: 'whole-request scheduling of the same model, plain client on both' });

{
  const ours = await rig('ours', 'page');
  const baseline = await rig('queue', 'plain');
  try {
    await alternate(ours, baseline, SAMPLES, async (side, one) => {
      const stale = await staleOf(one);
      const seen = await interruptOnce(one, side === 'ours' ? LOOK_MS.ours : LOOK_MS.queue);
      frames.add(side, seen.frames, { oldSoundBlocks: seen.blocks, lastOldFrameMs: seen.lastMs });
      packets.add(side, (await staleOf(one)) - stale);
    });
  } finally {
    await ours.close();
    await baseline.close();
  }
}
{
  const ours = await rig('ours', 'plain');
  const baseline = await rig('request', 'plain');
  try {
    await alternate(ours, baseline, Math.ceil(SAMPLES / 2), async (side, one) => {
      const seen = await interruptOnce(one, side === 'ours' ? LOOK_MS.ours : LOOK_MS.request);
      last.add(side, seen.lastMs, { oldFrames: seen.frames });
    });
  } finally {
    await ours.close();
    await baseline.close();
  }
}
packets.print();
frames.print();
last.print();
