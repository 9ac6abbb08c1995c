import { Compile, type Validator } from 'typebox/compile';
import type { TSchema } from 'typebox';
import * as channel from './channel.ts';
import { SegueError } from './errors.ts';
import { schemaFault } from './schema_fault.ts';

/** Longest message of a data channel, in UTF-16 units: a redirect with the longest prompt, fully escaped, is under 8,000. */
export const MAX_CHANNEL_TEXT = 16_384;

const CONTROL: ReadonlyMap<string, Validator<Record<never, never>, TSchema>> = new Map(
  Object.entries({
    hello: Compile(channel.Hello as TSchema),
    interrupt: Compile(channel.InterruptRequest as TSchema),
    redirect: Compile(channel.RedirectRequest as TSchema),
    cut: Compile(channel.CutRequest as TSchema),
    blend: Compile(channel.BlendRequest as TSchema),
    hold: Compile(channel.HoldRequest as TSchema),
    release: Compile(channel.ReleaseRequest as TSchema),
    rewind: Compile(channel.RewindRequest as TSchema),
    fork: Compile(channel.ForkRequest as TSchema),
    pause: Compile(channel.PauseRequest as TSchema),
    resume: Compile(channel.ResumeRequest as TSchema),
    ping: Compile(channel.PingRequest as TSchema),
    draft: Compile(channel.DraftMessage as TSchema),
  }),
);
const INPUT: ReadonlyMap<string, Validator<Record<never, never>, TSchema>> = new Map(
  Object.entries({
    action: Compile(channel.ActionInput as TSchema),
    position: Compile(channel.PositionInput as TSchema),
    interrupt: Compile(channel.InterruptRequest as TSchema),
    redirect: Compile(channel.RedirectRequest as TSchema),
    cut: Compile(channel.CutRequest as TSchema),
    rewind: Compile(channel.RewindRequest as TSchema),
  }),
);

/** A message that could not be used, with the id to answer to if it had a usable one. */
export interface UnusableMessage {
  readonly error: SegueError;
  readonly re: string | null;
}

export type ParsedMessage<Message> = { readonly message: Message } | UnusableMessage;

/**
 * Reads one message of a client. Never throws: what can't be used comes back as the error to answer with
 * (`bad_json`, `bad_request` with `param`, `payload_too_large`).
 */
export function parseChannelMessage(label: 'control', text: string): ParsedMessage<channel.ControlMessage>;
export function parseChannelMessage(label: 'input', text: string): ParsedMessage<channel.InputMessage>;
export function parseChannelMessage(label: 'control' | 'input', text: string): ParsedMessage<channel.ControlMessage | channel.InputMessage>;
export function parseChannelMessage(label: 'control' | 'input', text: string): ParsedMessage<channel.ControlMessage | channel.InputMessage> {
  if (text.length > MAX_CHANNEL_TEXT) return { error: new SegueError('payload_too_large', `a message is at most ${MAX_CHANNEL_TEXT} characters long`), re: null };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { error: new SegueError('bad_json', 'the message is not JSON'), re: null };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { error: new SegueError('bad_request', 'the message is not an object'), re: null };
  const { type, id } = value as { readonly type?: unknown; readonly id?: unknown };
  const re = typeof id === 'string' && /^[A-Za-z0-9_.:-]{1,64}$/.test(id) ? id : null;
  const validators = label === 'control' ? CONTROL : INPUT;
  const validator = typeof type === 'string' ? validators.get(type) : undefined;
  if (!validator) return { error: new SegueError('bad_request', `type must be one of ${[...validators.keys()].join(', ')}`, { param: 'type' }), re };
  if (!validator.Check(value)) {
    const { param, message } = schemaFault(validator.Errors(value));
    return { error: new SegueError('bad_request', message, { param }), re };
  }
  return { message: value as channel.ControlMessage | channel.InputMessage };
}
