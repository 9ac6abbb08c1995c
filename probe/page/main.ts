/** The script injected into every page before its own: see ../README.md. */
import type { PageProbe } from '../samples.ts';
import { Ear } from './Ear.ts';
import { Glass } from './Glass.ts';
import { Log } from './Log.ts';
import { Peers } from './Peers.ts';
import { Presses } from './Presses.ts';

declare global {
  interface Window {
    __probe?: PageProbe;
    /** Set before: nothing is listened to. */
    __probeDeaf?: boolean;
  }
}

if (window.__probe === undefined && window === window.top) {
  const log = new Log();
  const ear = new Ear(log);
  const glass = new Glass(log);
  const peers = new Peers(log);
  const presses = new Presses(log, ear);
  presses.install();
  peers.install();
  glass.install();
  if (window.__probeDeaf !== true) ear.install();
  window.__probe = {
    drain: () => log.drain(),
    mark: (what) => presses.mark(what),
    grab: () => glass.grab(),
    capture: (count) => glass.capture(count),
    stats: () => peers.stats(),
  };
}
