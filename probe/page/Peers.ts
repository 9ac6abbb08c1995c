import type { Log } from './Log.ts';

/** Logs the life of every RTCPeerConnection, and keeps them for `getStats`. */
export class Peers {
  readonly #log: Log;
  readonly #live = new Map<number, RTCPeerConnection>();

  constructor(log: Log) {
    this.#log = log;
  }

  install(): void {
    const peers = this; // eslint-disable-line @typescript-eslint/no-this-alias -- the subclass has a `this` of its own
    const Native = window.RTCPeerConnection;
    let count = 0;
    window.RTCPeerConnection = class RTCPeerConnection extends Native {
      constructor(configuration?: RTCConfiguration) {
        super(configuration);
        const peer = count++;
        const add = (event: 'created' | 'ice' | 'connection' | 'track' | 'closed', detail: string): void =>
          peers.#log.add({ kind: 'peer', t: performance.now(), peer, event, detail });
        peers.#live.set(peer, this);
        add('created', '');
        this.addEventListener('iceconnectionstatechange', () => add('ice', this.iceConnectionState));
        this.addEventListener('connectionstatechange', () => {
          add('connection', this.connectionState);
          if (this.connectionState === 'closed' || this.connectionState === 'failed') peers.#live.delete(peer);
        });
        this.addEventListener('track', ({ track }) => add('track', track.kind));
      }
    };
  }

  /** `inbound-rtp` and the nominated candidate pair of every live peer, as the browser reports them. */
  async stats(): Promise<Record<string, unknown>[]> {
    const rows: Record<string, unknown>[] = [];
    for (const [peer, connection] of this.#live) {
      if (connection.connectionState === 'closed') continue;
      const report = await connection.getStats();
      report.forEach((entry: Record<string, unknown>) => {
        if (entry['type'] === 'inbound-rtp' || (entry['type'] === 'candidate-pair' && entry['nominated'] === true)) rows.push({ peer, ...entry });
      });
    }
    return rows;
  }
}
