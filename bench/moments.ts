/** The moments that the benches are about, found in the log of the probe and in what crossed the page's channels. */
import { frameDistance, heldAt, isEpochOrLater, painted, pressToGlass } from '../probe/derive.ts';
import type { PressSample } from '../probe/samples.ts';
import type { ClientEvent, DrivePage } from '../test/e2e/DrivePage.ts';

const WAIT_MS = 15_000;

/** Press → first picture painted of `epoch` that is not the held one again, ms. By the stamps in the picture alone. */
export async function untilNewPicture(page: DrivePage, press: PressSample, epoch: number, timeoutMs = WAIT_MS): Promise<number> {
  return page.probe.until(
    `a new picture of epoch ${epoch}`,
    (samples) => {
      const held = heldAt(samples, press)?.stamp;
      return pressToGlass(samples, press, (paint) => isEpochOrLater(paint, epoch) && !(held != null && paint.stamp !== null && frameDistance(paint.stamp.frame, held.frame) === 0)) ?? undefined;
    },
    timeoutMs,
  );
}

/** Press → first picture painted at or after an RTP time, ms. */
export async function untilRtpPainted(page: DrivePage, press: PressSample, rtp: number, timeoutMs = WAIT_MS): Promise<number> {
  return page.probe.until(
    `the picture of RTP time ${rtp}`,
    (samples) => {
      const paint = painted(samples).find(({ t, key }) => t >= press.t && key !== null && ((key - rtp) >>> 0) < 2 ** 31);
      return paint === undefined ? undefined : paint.t - press.t;
    },
    timeoutMs,
  );
}

/** Types a prompt, looks at it for `restMs`, and presses Enter: the press, and the server's two answers. */
export async function redirect(page: DrivePage, text: string, restMs = 0): Promise<{ press: PressSample; accepted: ClientEvent & { event: 'accepted' }; applied(): Promise<ClientEvent & { event: 'applied' }> }> {
  const since = await page.typePrompt(text, restMs);
  const press = await page.press('key:Enter', since);
  const accepted = (await page.event('accepted', (event) => event.event === 'accepted' && event.t >= press.t, WAIT_MS)) as ClientEvent & { event: 'accepted' };
  return {
    press,
    accepted,
    applied: async () => (await page.event('applied', (event) => event.event === 'applied' && event.re === accepted.re, WAIT_MS)) as ClientEvent & { event: 'applied' },
  };
}

/** Polls what crossed the channels until `find` finds it. */
export async function untilFound<T>(what: string, find: () => Promise<T | undefined>, timeoutMs = WAIT_MS): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const found = await find();
    if (found !== undefined) return found;
    if (performance.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
