#!/usr/bin/env node
/** The command line: what is done with a model and with what a server keeps, while no server runs. */
import { ConfigError } from '../api/load_config.ts';
import type { Command } from './Command.ts';
import { CommandError, EXIT } from './CommandError.ts';
import { replay } from './replay.ts';
import { schemas } from './schemas.ts';
import { simulate } from './simulate.ts';
import { validate } from './validate.ts';

const COMMANDS: ReadonlyMap<string, Command> = new Map(Object.entries({ replay, simulate, validate, schemas }));

process.exitCode = await main(process.argv.slice(2));

async function main([name, ...args]: readonly string[]): Promise<number> {
  if (name === undefined || name === '--help' || name === '-h') return say(usage(), EXIT.ok);
  const command = COMMANDS.get(name);
  if (command === undefined) return complain(`no command ${name}\n\n${usage()}`, EXIT.usage);
  const help = `usage: segue ${name} ${command.usage}\n\n${command.summary}`;
  if (args.includes('--help') || args.includes('-h')) return say(help, EXIT.ok);
  try {
    return await command.run(args, { line: (text) => void process.stdout.write(`${text}\n`) });
  } catch (error) {
    if (error instanceof CommandError) return complain(error.exit === EXIT.usage ? `${error.message}\n\n${help}` : error.message, error.exit);
    if (error instanceof ConfigError) return complain(error.message, EXIT.unusable);
    throw error;
  }
}

function usage(): string {
  const lines = [...COMMANDS].map(([name, command]) => `segue ${name} ${command.usage}\n    ${command.summary.split('\n', 1)[0]!}`);
  return ['usage:', ...lines, 'segue COMMAND --help tells more.'].join('\n');
}

function say(text: string, exit: number): number {
  process.stdout.write(`${text}\n`);
  return exit;
}

function complain(text: string, exit: number): number {
  process.stderr.write(`segue: ${text}\n`);
  return exit;
}
