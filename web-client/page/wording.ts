import type { ClientError } from '../sdk/ClientError.ts';
import type { BudgetWarning, Degraded, PromptWarning, WaitingPlace } from '../sdk/messages.ts';

export interface Ending {
  readonly title: string;
  readonly detail: string;
  /** What the button offers. */
  readonly way: string;
}

const AGAIN = 'Join again';
const RETRY = 'Try to join again';

/** Why there is no session (any more), in words for whoever wanted one, and the way on. Pure. */
export function endingOf(error: ClientError, wasJoined: boolean): Ending {
  switch (error.code) {
    case 'closed':
      return error.message.startsWith('You left') ? { title: 'You left the drive.', detail: '', way: AGAIN } : { title: 'The drive has ended.', detail: sentence(error.message), way: AGAIN };
    case 'network':
    case 'timed_out':
      return wasJoined
        ? { title: 'The connection was lost.', detail: 'The server has not answered for too long to go on where you were.', way: RETRY }
        : { title: 'The server can’t be reached.', detail: 'It may be starting, or the network is down.', way: RETRY };
    case 'session_not_found':
    case 'session_closed':
    case 'token_expired':
    case 'unauthorized':
      return { title: 'This drive is gone.', detail: 'The server has let it go, or was started anew. The next one begins fresh.', way: AGAIN };
    case 'rate_limited':
      return { title: 'Too many drives from your address.', detail: error.body?.retryAfterMs === undefined ? 'Wait a little.' : `The next one may begin in ${Math.ceil(error.body.retryAfterMs / 1000)} s.`, way: RETRY };
    case 'budget_exhausted':
      return { title: 'The drive has ended.', detail: sentence(error.message), way: AGAIN };
    case 'not_found':
      return { title: 'No drives for visitors here.', detail: 'This server gives sessions to its API’s callers only (setting demo.enabled).', way: RETRY };
    case 'draining':
    case 'engine_unavailable':
      return { title: 'The server isn’t ready.', detail: sentence(error.message), way: RETRY };
    case 'unsupported_browser':
      return { title: 'This browser can’t show the drive.', detail: sentence(error.message), way: RETRY };
    default:
      return { title: wasJoined ? 'The drive has ended.' : 'The drive could not begin.', detail: sentence(error.message), way: RETRY };
  }
}

export function sentence(text: string): string {
  const tidy = text.trim();
  return tidy === '' ? '' : tidy.charAt(0).toUpperCase() + tidy.slice(1) + (/[.!?]$/.test(tidy) ? '' : '.');
}

const MAX_WORDS_TOLD = 8;
const MAX_LETTERS_TOLD = 40;

/** Words for a message: a few, and none as long as the screen. */
export function listed(words: readonly string[]): string {
  const told = words.slice(0, MAX_WORDS_TOLD).map((word) => (word.length > MAX_LETTERS_TOLD ? `${word.slice(0, MAX_LETTERS_TOLD)}…` : word));
  return [...told, ...(words.length > MAX_WORDS_TOLD ? [`and ${words.length - MAX_WORDS_TOLD} more`] : [])].join(', ');
}

/** A place in line, and about when its turn comes. Without a position there is no place in line either. */
export function waitingText({ position, estimateMs }: Pick<WaitingPlace, 'position' | 'estimateMs'>): { readonly title: string; readonly detail: string } {
  if (position === undefined) return { title: 'The line is full', detail: 'Every seat and every place in line is taken; this page keeps asking.' };
  const when = estimateMs === undefined ? '' : ` That is likely ${about(estimateMs)}.`;
  return { title: position === 1 ? 'You are next' : `You are number ${position} in line`, detail: `Every seat is taken; you enter as soon as one is free.${when}` };
}

/** No more exact than it can be known. */
function about(ms: number): string {
  if (ms < 45_000) return 'within a minute';
  const minutes = Math.round(ms / 60_000);
  if (minutes <= 1) return 'in about a minute';
  return minutes < 60 ? `in about ${minutes < 10 ? minutes : Math.round(minutes / 5) * 5} minutes` : 'in more than an hour';
}

/** What a session goes without while its server is busy, in as few words as say it. */
export function degradedText({ rung }: Pick<Degraded, 'rung'>): string {
  switch (rung) {
    case 'speculation':
      return 'Busy server: no previews';
    case 'look_ahead':
      return 'Busy server: keys land later';
    case 'steps':
      return 'Busy server: softer pictures';
    case 'pace':
      return 'Busy server: slower than time';
    default:
      return 'Busy server';
  }
}

/** What is left of a budget. */
export function budgetText(resource: BudgetWarning['resource'], left: number): string {
  switch (resource) {
    case 'wallMs':
      return `It ends in ${Math.ceil(left / 1000)} s.`;
    case 'deviceMs':
      return `${Math.ceil(left / 1000)} s of computing are left.`;
    case 'sentBytes':
      return `${Math.ceil(left / 1e6)} MB of picture and sound are left.`;
  }
}

/** What was ignored, by why. A code of a newer server is told in the server's own words. */
export function warningText({ code, words, message }: PromptWarning): string {
  switch (code) {
    case 'unknown_words':
      return `I don’t know: ${listed(words)}.`;
    case 'replaced':
      return `Replaced by what you said after it: ${listed(words)}.`;
    case 'negated':
      return `What instead of ${listed(words)}?`;
    default:
      return sentence(message);
  }
}

/** A moment of a story, as people read clocks: `1:05`. */
export function clock(media90k: number): string {
  const seconds = Math.floor(media90k / 90_000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}
