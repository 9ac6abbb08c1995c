import { Counter, Gauge, Histogram, Registry } from 'prom-client';

/** Bucket bounds, seconds: half of them below a frame time (83 ms at 12 frames/s), where interruption happens. */
const REQUEST_BUCKETS = [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.25, 2.5, 5];
const HTTP_BUCKETS = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];
/** What an HTTP parser lets through besides is one label value: a stranger must not make series. */
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** How a number that another part counts becomes a metric. */
export interface StatMetric {
  /** Base units and `_total` as Prometheus' naming rules ask for: seconds, bytes. */
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge';
  /** Factor from the number to the metric's unit: 0.001 for milliseconds. Default 1. */
  readonly scale?: number;
}

/**
 * The server's metrics in a registry of their own, so that two servers in one process don't mix.
 * Names follow prometheus.io/docs/practices/naming; every label has a small, fixed set of values.
 */
export class Metrics {
  readonly registry = new Registry();
  readonly #http: Histogram<'method' | 'route' | 'status'>;
  readonly #requests: Histogram<'kind' | 'answer'>;
  readonly #gauges = new Map<string, Gauge>();
  readonly #counters = new Map<string, { readonly counter: Counter; last: number }>();

  constructor() {
    const registers = [this.registry];
    this.#http = new Histogram({ name: 'segue_http_request_duration_seconds', help: 'Time to answer an HTTP call', labelNames: ['method', 'route', 'status'], buckets: HTTP_BUCKETS, registers });
    this.#requests = new Histogram({
      name: 'segue_session_request_duration_seconds',
      help: 'From a request of a session accepted to its last answer',
      labelNames: ['kind', 'answer'],
      buckets: REQUEST_BUCKETS,
      registers,
    });
  }

  /** `route`: the pattern, never the path. */
  observeHttp(method: string, route: string, status: number, ms: number): void {
    this.#http.observe({ method: METHODS.has(method) ? method : 'other', route, status: String(status) }, ms / 1000);
  }

  observeRequest(kind: string, answer: string, ms: number): void {
    this.#requests.observe({ kind, answer }, ms / 1000);
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

  /** A total that this process counts elsewhere and that never falls, read when scraped. */
  counter(name: string, help: string, read: () => number): void {
    if (this.#counters.has(name)) throw new Error(`metric ${name} exists`);
    const counter: Counter = new Counter({ name, help, registers: [this.registry], collect: () => this.#raise(name, read()) });
    this.#counters.set(name, { counter, last: 0 });
  }

  /** Takes over what another thread counts. A stat without a metric is passed over, and so is one that is no number. */
  takeStats(stats: Readonly<Record<string, number | undefined>>, metrics: Readonly<Record<string, StatMetric>>): void {
    for (const [key, value] of Object.entries(stats)) {
      const metric = metrics[key];
      if (metric === undefined || typeof value !== 'number' || !Number.isFinite(value)) continue;
      const { name, help, type, scale = 1 } = metric;
      if (type === 'gauge') {
        let gauge = this.#gauges.get(name);
        if (!gauge) this.#gauges.set(name, (gauge = new Gauge({ name, help, registers: [this.registry] })));
        gauge.set(value * scale);
        continue;
      }
      if (!this.#counters.has(name)) this.#counters.set(name, { counter: new Counter({ name, help, registers: [this.registry] }), last: 0 });
      this.#raise(name, value * scale);
    }
  }

  get contentType(): string {
    return this.registry.contentType;
  }

  render(): Promise<string> {
    return this.registry.metrics();
  }

  #raise(name: string, total: number): void {
    const entry = this.#counters.get(name)!;
    // A restarted count begins again at nothing.
    entry.counter.inc(total >= entry.last ? total - entry.last : total);
    entry.last = total;
  }
}
