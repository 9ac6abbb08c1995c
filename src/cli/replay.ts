import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadConfig } from '../api/load_config.ts';
import { callArguments, onePositional } from './call_arguments.ts';
import type { Command } from './Command.ts';
import { CommandError, EXIT } from './CommandError.ts';
import { replayCommand } from './ReplayCommand.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export const replay: Command = {
  usage: 'SESSION [--frame F] [--branch B] [--out FILE.png] [--storage DIRECTORY] [--model DIRECTORY]',
  summary: `Computes a kept session again with the model and compares it with what was kept, bit for bit.

  --frame F      only up to frame F of the story (from 0), and writes that frame as PNG
  --branch B     a story that was gone back in: as it went on in branch B (0: the first); default the one in force
  --out FILE     where to; default SESSION-F.png
  --storage DIR  default: storage.directory of the configuration
  --model DIR    default: model.directory of the configuration

Exit codes: 0 bit-equal, 1 different, 2 called wrongly, 3 can't be done (a running server has the storage, no such session, other weights).`,
  run: (args, output) => replayCommand(readWish(args), output),
};

function readWish(args: readonly string[]) {
  const { values, positionals } = callArguments(args, { frame: { type: 'string' }, branch: { type: 'string' }, out: { type: 'string' }, storage: { type: 'string' }, model: { type: 'string' } });
  const sessionId = onePositional(positionals, 'session');
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
