import type { Output } from './CommandError.ts';

/** One word of the command line: how it is called, and what it does. */
export interface Command {
  /** Its arguments, as the usage shows them. */
  readonly usage: string;
  readonly summary: string;
  /** Resolves with the exit code (see `EXIT`). Rejects with `CommandError` for what isn't a call, or can't be done. */
  run(args: readonly string[], output: Output): Promise<number>;
}
