import { SimulatedViewer, type SentFrame, type SimulatedViewerOptions } from '../../src/simulation/SimulatedViewer.ts';

/** A viewer that remembers what was sent. */
export class WatchingViewer extends SimulatedViewer {
  readonly sent: SentFrame[];

  constructor(options: Omit<SimulatedViewerOptions, 'onFrame'>) {
    const sent: SentFrame[] = [];
    super({ ...options, onFrame: (frame) => sent.push(frame) });
    this.sent = sent;
  }
}
