import { ConfigError } from './load_config.ts';

/** Why the server can't start, where whoever starts it can put that right: the message names what and where, and is all there is to say. */
export class StartError extends Error {
  override readonly name = 'StartError';
}

/** The start was given up because somebody asked for that. */
export class StartCancelled extends Error {
  override readonly name = 'StartCancelled';
}

/** The one line for a mistake of the user; null for a fault of ours, of which the stack matters. */
export function userMistake(error: unknown): string | null {
  return error instanceof StartError || error instanceof ConfigError ? error.message.replace(/\s*\n\s*/g, ' ').replace(/:\s*$/, '') : null;
}
