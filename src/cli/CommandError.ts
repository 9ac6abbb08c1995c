/** What a command ends with. */
export const EXIT = {
  ok: 0,
  /** It was done, and what it looked at is not as it should be. */
  different: 1,
  /** It was called wrongly. */
  usage: 2,
  /** It couldn't be done: no storage, no such session, other weights. */
  unusable: 3,
} as const;

/** Why a command can't be done, in one line for whoever called it. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly exit: typeof EXIT.usage | typeof EXIT.unusable;

  constructor(exit: CommandError['exit'], message: string) {
    super(message);
    this.exit = exit;
  }
}

/** Where a command says what it has to say. */
export interface Output {
  line(text: string): void;
}
