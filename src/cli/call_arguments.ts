import { parseArgs, type ParseArgsConfig } from 'node:util';
import { CommandError, EXIT } from './CommandError.ts';

type Options = NonNullable<ParseArgsConfig['options']>;

/** Options and positionals of a call. @throws {CommandError} for an option that the command doesn't have, or one without its value. */
export function callArguments<T extends Options>(args: readonly string[], options: T) {
  try {
    return parseArgs({ args: [...args], allowPositionals: true, options });
  } catch (error) {
    throw new CommandError(EXIT.usage, error instanceof Error ? error.message : String(error));
  }
}

/** The one positional of a call. @throws {CommandError} for none or several. */
export function onePositional(positionals: readonly string[], what: string): string {
  const [only, ...more] = positionals;
  if (only === undefined) throw new CommandError(EXIT.usage, `which ${what}?`);
  if (more.length > 0) throw new CommandError(EXIT.usage, `one ${what} at a time, got ${positionals.join(' ')}`);
  return only;
}
