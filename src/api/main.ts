import { fileURLToPath } from 'node:url';
import { monotonicClock } from '../observe/clock.ts';
import { createLogger, type Logger } from '../observe/log.ts';
import { loadConfig, redactConfig, type LoadedConfig } from './load_config.ts';
import { Server } from './Server.ts';
import { StartCancelled, userMistake } from './start_error.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const EXIT = { ok: 0, failed: 1 } as const;
/** Past the drain limit, for what stops a start to be put away. */
const LAST_MS = 1_000;

await main();

async function main(): Promise<void> {
  let loaded: LoadedConfig;
  try {
    loaded = loadConfig({ directory: ROOT, env: process.env });
  } catch (error) {
    return failToStart(error);
  }
  const { config, file, warnings } = loaded;
  const log = createLogger({ level: config.logLevel });
  log.info({ file, config: redactConfig(config) }, 'configuration');
  for (const warning of warnings) log.warn(warning);

  const starting = new AbortController();
  let server: Server | null = null;
  const stop = (signal: NodeJS.Signals): void => {
    log.info({ signal }, server ? 'told to stop' : 'told to stop while starting');
    // A stuck part must not keep the process: past the limit it ends as it is, and says so by its exit code.
    const limit = setTimeout(() => {
      log.fatal('not drained within the limit');
      process.exit(EXIT.failed);
    }, config.drain.deadlineMs + (server ? 0 : LAST_MS));
    limit.unref();
    if (!server) return starting.abort();
    void server.close('the server is shutting down').then((inOrder) => {
      clearTimeout(limit);
      process.exitCode = inOrder ? EXIT.ok : EXIT.failed;
      letGo();
    });
  };
  const letGo = (): void => {
    process.off('SIGTERM', stop);
    process.off('SIGINT', stop);
    reportLeftOpen(log);
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);

  const begin = monotonicClock.now();
  try {
    server = await Server.start({ config, root: ROOT, log, signal: starting.signal });
  } catch (error) {
    if (error instanceof StartCancelled) log.info('stopped while starting');
    else failToStart(error, log);
    return letGo();
  }
  log.info({ url: `${server.url}/`, startMs: Math.round(monotonicClock.now() - begin) }, 'listening');
  // Beside the log, not in it: a key must not end up where logs are kept.
  process.stderr.write(`\n  Segue: ${server.url}/\n${server.generatedKey === null ? '' : `  API key for this run: ${server.generatedKey}\n`}\n`);
  void server.crashed.then(() => {
    process.exit(EXIT.failed);
  });
}

/** One line for what the user can put right; the stack too, where it is a fault of ours. */
function failToStart(error: unknown, log?: Logger): void {
  process.exitCode = EXIT.failed;
  const mistake = userMistake(error);
  if (mistake === null) log?.fatal({ err: error }, 'not started');
  process.stderr.write(`segue: ${mistake ?? (error instanceof Error ? error.message : String(error))}\n`);
}

/** The process ends when nothing is open; what is still open a moment after the end is a fault of ours, and named. */
function reportLeftOpen(log: Logger): void {
  const watchdog = setTimeout(() => {
    log.error({ open: process.getActiveResourcesInfo() }, 'something was left open');
    process.exit(EXIT.failed);
  }, 1_000);
  watchdog.unref();
}
