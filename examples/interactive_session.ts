/**
 * A live session without a server: the story goes on in real time, a key is held, another scene is asked for in the middle of it, and it stops.
 *
 *   node examples/interactive_session.ts "forest at dusk" "desert at dawn" out
 *
 * writes `out/frame-000.ppm` …, and says what happened to what was asked. Ctrl+C closes the session.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openEngine, type Engine, type RequestOutcome, type SessionFrame } from '../src/index.ts';

const MODEL = new URL('../models/drive', import.meta.url).pathname;

export interface Played {
  /** All frames that were seen, in the order in which they were. */
  readonly frames: readonly SessionFrame[];
  readonly text: string;
  /** What became of the redirect. */
  readonly redirect: RequestOutcome;
}

/** Two seconds of the first scene, the second turned to the left, and then one second of the other. */
export async function play(engine: Engine, first: string, second: string, signal?: AbortSignal): Promise<Played> {
  await using session = engine.session({ prompt: first, seed: 7, ...(signal === undefined ? {} : { signal }) });
  const frames: SessionFrame[] = [];
  let text = '';
  let redirect: Promise<RequestOutcome> | null = null;
  for await (const event of session) {
    if (event.type === 'text') text += event.text;
    if (event.type === 'fault') throw event.error;
    if (event.type !== 'frame') continue;
    frames.push(event);
    if (frames.length === 12) session.action({ steer: -1, speed: 2 });
    if (frames.length === 24) {
      session.action({ steer: 0, speed: 2 });
      // In the call itself nothing old is given any more: the next frame that comes shows the desert, and follows the one just seen.
      redirect = session.redirect(second).answer;
    }
    if (frames.length === 36) break;
  }
  signal?.throwIfAborted();
  return { frames, text, redirect: await redirect! };
}

if (import.meta.main) {
  const interrupt = new AbortController();
  process.once('SIGINT', () => interrupt.abort());
  const [first = 'forest at dusk', second = 'desert at dawn', out = 'out'] = process.argv.slice(2);
  await using engine = await openEngine(MODEL);
  const { width, height } = engine.spec.format;
  const { frames, text, redirect } = await play(engine, first, second, interrupt.signal);
  mkdirSync(out, { recursive: true });
  frames.forEach(({ pixels }, index) => writeFileSync(join(out, `frame-${String(index).padStart(3, '0')}.ppm`), Buffer.concat([Buffer.from(`P6 ${width} ${height} 255\n`), pixels])));
  console.log(text);
  console.log(redirect.outcome === 'applied' ? `${redirect.how} at ${redirect.media90k / 90_000} s of the story, ${redirect.elapsedMs.toFixed(0)} ms after it was asked for` : `superseded by ${redirect.by}`);
}
