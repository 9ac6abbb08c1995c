import { fileURLToPath } from 'node:url';
import { monotonicClock } from '../observe/clock.ts';
import { createLogger } from '../observe/log.ts';
import { ConfigError, loadConfig, redactConfig, type LoadedConfig } from './load_config.ts';
import { Server } from './Server.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Exit codes: 1 something failed, 2 the configuration is wrong (as sysexits' EX_CONFIG, kept small for shells). */
const EXIT = { ok: 0, failed: 1, config: 2 } as const;

await main();

async function main(): Promise<void> {
  let loaded: LoadedConfig;
  try {
    loaded = loadConfig({ directory: ROOT, env: process.env });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`segue: ${error.message}\n`);
    process.exitCode = EXIT.config;
    return;
  }
  const { config, file, warnings } = loaded;
  const log = createLogger({ level: config.logLevel });
  log.info({ file, config: redactConfig(config) }, 'configuration');
  for (const warning of warnings) log.warn(warning);

  let server: Server;
  const begin = monotonicClock.now();
  try {
    server = await Server.start({ config, root: ROOT, log });
  } catch (error) {
    log.fatal({ err: error }, 'not started');
    process.stderr.write(`segue: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = EXIT.failed;
    return;
  }
  log.info({ url: `${server.url}/`, startMs: Math.round(monotonicClock.now() - begin) }, 'listening');
  process.stdout.write(`\n  Segue: ${server.url}/\n${server.generatedKey === null ? '' : `  API key for this run: ${server.generatedKey}\n`}\n`);

  const stop = (signal: NodeJS.Signals): void => {
    log.info({ signal }, 'told to stop');
    // A stuck part must not keep the process: past the limit it ends as it is, and says so by its exit code.
    const limit = setTimeout(() => {
      log.fatal('not drained within the limit');
      process.exit(EXIT.failed);
    }, config.drain.deadlineMs);
    void server.close('the server is shutting down').then((inOrder) => {
      clearTimeout(limit);
      process.exitCode = inOrder ? EXIT.ok : EXIT.failed;
      process.off('SIGTERM', stop);
      process.off('SIGINT', stop);
      reportLeftOpen(log);
    });
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  void server.crashed.then(() => {
    process.exit(EXIT.failed);
  });
}

/** The process ends when nothing is open; what is still open a moment after the end is a fault of ours, and named. */
function reportLeftOpen(log: ReturnType<typeof createLogger>): void {
  const watchdog = setTimeout(() => {
    log.error({ open: process.getActiveResourcesInfo() }, 'something was left open');
    process.exit(EXIT.failed);
  }, 1_000);
  watchdog.unref();
}
