/**
 * How long a person waits for the first picture on a server that is up: `start_join` from the press of Join, `start_warm` from ICE connected.
 * There is no baseline on this machine; the goals are in the text of `docs/benchmarks.md`.
 */
import { painted } from '../probe/derive.ts';
import { Probe } from '../probe/Probe.ts';
import { DrivePage } from '../test/e2e/DrivePage.ts';
import { TestServer } from '../test/e2e/server.ts';
import { Figure } from './Figure.ts';
import { SAMPLES } from './rig.ts';

const warm = new Figure({ figure: 'start_warm', unit: 'ms p95', statistic: 'p95' });
const join = new Figure({ figure: 'start_join', unit: 'ms p95', statistic: 'p95' });

const server = await TestServer.start({ env: { SEGUE_DEMO_PER_MINUTE: '1000' } });
const probe = await Probe.launch();
try {
  for (let at = 0; at < SAMPLES; at++) {
    const page = await DrivePage.open(probe, server, { ear: false, query: `seed=${at}` });
    const press = await page.join();
    const first = painted(page.probe.samples)[0]!;
    const connected = page.probe.samples.find((sample) => sample.kind === 'peer' && sample.event === 'ice' && sample.detail === 'connected');
    join.add('ours', first.t - press.t);
    warm.add('ours', connected === undefined ? null : first.t - connected.t);
    await page.leave();
    await page.close();
  }
} finally {
  await probe.close();
  await server.stop();
}
warm.print();
join.print();
