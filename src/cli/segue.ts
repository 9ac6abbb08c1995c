#!/usr/bin/env node
/** The command line: what is done with what a server keeps, while it isn't running. */
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ConfigError, loadConfig } from '../api/load_config.ts';
import { CommandError, EXIT } from './CommandError.ts';
import { replayCommand } from './ReplayCommand.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const USAGE = `usage: segue replay SESSION [--frame F] [--branch B] [--out FILE.png] [--storage DIRECTORY] [--model DIRECTORY]

Computes a kept session again with the model and compares it with what was kept, bit for bit.

  --frame F      only up to frame F of the story (from 0), and writes that frame as PNG
  --branch B     a story that was gone back in: as it went on in branch B (0: the first); default the one in force
  --out FILE     where to; default SESSION-F.png
  --storage DIR  default: storage.directory of the configuration
  --model DIR    default: model.directory of the configuration

Exit codes: 0 bit-equal, 1 different, 2 called wrongly, 3 can't be done (a running server has the storage, no such session, other weights).`;

process.exitCode = await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<number> {
  try {
    const wish = readArguments(args);
    if (wish === null) return say(USAGE, EXIT.ok);
    return await replayCommand(wish, { line: (text) => void process.stdout.write(`${text}\n`) });
  } catch (error) {
    if (error instanceof CommandError) return complain(error.exit === EXIT.usage ? `${error.message}\n\n${USAGE}` : error.message, error.exit);
    if (error instanceof ConfigError) return complain(error.message, EXIT.unusable);
    throw error;
  }
}

/** Null: only asks how. @throws {CommandError} for what isn't a call. */
function readArguments(args: readonly string[]) {
  const { values, positionals } = parsed(args);
  const [command, sessionId, ...more] = positionals;
  if (values.help === true || (command === undefined && args.length === 0)) return null;
  if (command !== 'replay') throw new CommandError(EXIT.usage, command === undefined ? 'no command' : `no command ${command}`);
  if (sessionId === undefined || more.length > 0) throw new CommandError(EXIT.usage, sessionId === undefined ? 'which session?' : `one session at a time, got ${positionals.slice(1).join(' ')}`);
  const frame = values.frame === undefined ? null : Number(values.frame);
  if (frame !== null && (!/^\d+$/.test(values.frame!) || !Number.isSafeInteger(frame))) throw new CommandError(EXIT.usage, `--frame is a number from 0, got ${values.frame}`);
  if (values.branch !== undefined && !/^\d{1,9}$/.test(values.branch)) throw new CommandError(EXIT.usage, `--branch is a number from 0, got ${values.branch}`);
  if (values.out !== undefined && frame === null) throw new CommandError(EXIT.usage, '--out goes with --frame');
  const needed = values.storage === undefined || values.model === undefined;
  const config = needed ? loadConfig({ directory: ROOT, env: process.env }).config : null;
  const storage = values.storage ?? config?.storage.directory ?? null;
  if (storage === null) throw new CommandError(EXIT.unusable, 'storage.directory is null: nothing is kept');
  return {
    sessionId,
    frame,
    branch: values.branch === undefined ? null : Number(values.branch),
    out: values.out ?? null,
    storageDirectory: values.storage === undefined ? resolve(ROOT, storage) : storage,
    modelDirectory: values.model ?? resolve(ROOT, config!.model.directory),
  };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], allowPositionals: true, options: { frame: { type: 'string' }, branch: { type: 'string' }, out: { type: 'string' }, storage: { type: 'string' }, model: { type: 'string' }, help: { type: 'boolean', short: 'h' } } });
  } catch (error) {
    throw new CommandError(EXIT.usage, error instanceof Error ? error.message : String(error));
  }
}

function say(text: string, exit: number): number {
  process.stdout.write(`${text}\n`);
  return exit;
}

function complain(text: string, exit: number): number {
  process.stderr.write(`segue: ${text}\n`);
  return exit;
}
