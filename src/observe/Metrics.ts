import { Counter, Gauge, Histogram, Registry } from 'prom-client';

/** Bucket bounds, ms: half of them below a frame time (83 ms at 12 frames/s), where interruption happens. */
const REQUEST_BUCKETS = [5, 10, 20, 40, 80, 160, 320, 640, 1_250, 2_500, 5_000];
const HTTP_BUCKETS = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000];

/** The server's metrics in a registry of their own, so that two servers in one process don't mix. Names follow Prometheus' rules, times are in ms. */
export class Metrics {
  readonly registry = new Registry();
  readonly #http: Histogram<'method' | 'route' | 'status'>;
  readonly #requests: Histogram<'kind' | 'answer'>;
  readonly #gauges = new Map<string, Gauge>();
  readonly #counters = new Map<string, { readonly counter: Counter; last: number }>();

  constructor() {
    const registers = [this.registry];
    this.#http = new Histogram({ name: 'segue_http_ms', help: 'Time to answer an HTTP call', labelNames: ['method', 'route', 'status'], buckets: HTTP_BUCKETS, registers });
    this.#requests = new Histogram({ name: 'segue_request_ms', help: 'From a session request accepted to its last answer', labelNames: ['kind', 'answer'], buckets: REQUEST_BUCKETS, registers });
  }

  observeHttp(method: string, route: string, status: number, ms: number): void {
    this.#http.observe({ method, route, status: String(status) }, ms);
  }

  observeRequest(kind: string, answer: string, ms: number): void {
    this.#requests.observe({ kind, answer }, ms);
  }

  /** A value read when it is scraped. */
  gauge(name: string, help: string, read: () => number): void {
    if (this.#gauges.has(name)) throw new Error(`metric ${name} exists`);
    const gauge: Gauge = new Gauge({ name, help, registers: [this.registry], collect: () => gauge.set(read()) });
    this.#gauges.set(name, gauge);
  }

  /** Values by one label, read when scraped; labels that are gone are not reported. */
  gaugeBy(name: string, help: string, label: string, read: () => Readonly<Record<string, number>>): void {
    if (this.#gauges.has(name)) throw new Error(`metric ${name} exists`);
    const gauge: Gauge = new Gauge({
      name,
      help,
      labelNames: [label],
      registers: [this.registry],
      collect: () => {
        gauge.reset();
        for (const [value, count] of Object.entries(read())) gauge.set({ [label]: value }, count);
      },
    });
    this.#gauges.set(name, gauge);
  }

  /** Takes over totals that another thread counts. `gauges` names those that may fall. */
  takeStats(prefix: string, stats: Readonly<Record<string, number>>, gauges: ReadonlySet<string>): void {
    for (const [key, value] of Object.entries(stats)) {
      if (typeof value !== 'number' || !Number.isFinite(value)) continue;
      const base = `${prefix}_${key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`;
      if (gauges.has(key)) {
        let gauge = this.#gauges.get(base);
        if (!gauge) this.#gauges.set(base, (gauge = new Gauge({ name: base, help: `${prefix} ${key}`, registers: [this.registry] })));
        gauge.set(value);
        continue;
      }
      let entry = this.#counters.get(base);
      if (!entry) this.#counters.set(base, (entry = { counter: new Counter({ name: `${base}_total`, help: `${prefix} ${key}`, registers: [this.registry] }), last: 0 }));
      // A restarted count begins again at nothing.
      entry.counter.inc(value >= entry.last ? value - entry.last : value);
      entry.last = value;
    }
  }

  get contentType(): string {
    return this.registry.contentType;
  }

  render(): Promise<string> {
    return this.registry.metrics();
  }
}
