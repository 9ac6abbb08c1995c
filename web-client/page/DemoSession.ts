import { ClientError, errorOf, type CreatedSession, type CreateSession, type WaitingPlace } from '../sdk/index.ts';

const CALL_TIMEOUT_MS = 8_000;
/** Between two tries at least, whatever the server says. */
const MIN_RETRY_MS = 500;
/** The server forgets a place in line that nobody has asked for in 15 s. */
const MAX_RETRY_MS = 8_000;

/**
 * Creates a session on the demo route, which needs no API key. While the server is full it waits in line and tells the place in it.
 * Throws ClientError; the signal's abort rejects with its reason.
 */
export async function createDemoSession(baseUrl: string, body: CreateSession, waiting: (place: WaitingPlace) => void, signal: AbortSignal): Promise<CreatedSession> {
  let ticket: string | undefined;
  for (;;) {
    const answer = await post(new URL('v1/demo/sessions', baseUrl), { ...body, ...(ticket === undefined ? {} : { ticket }) }, signal);
    if ('id' in answer) return answer;
    waiting(answer);
    ticket = answer.ticket ?? ticket;
    await delay(Math.min(MAX_RETRY_MS, Math.max(MIN_RETRY_MS, answer.retryAfterMs)), signal);
  }
}

async function post(url: URL, body: CreateSession, signal: AbortSignal): Promise<CreatedSession | WaitingPlace> {
  let response: Response;
  try {
    response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json', prefer: 'respond-async' }, body: JSON.stringify(body), signal: AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)]) });
  } catch (error) {
    signal.throwIfAborted();
    throw new ClientError('network', 'The server can’t be reached.', null, error);
  }
  const text = await response.text();
  if (!response.ok) throw errorOf(response, text);
  return JSON.parse(text) as CreatedSession | WaitingPlace;
}

function delay(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', aborted);
      resolve();
    }, ms);
    const aborted = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    signal.addEventListener('abort', aborted, { once: true });
  });
}
