import { ClientError, errorOf, type CreatedSession, type CreateSession } from '../sdk/index.ts';

const CALL_TIMEOUT_MS = 8_000;
/** Between two tries where the server names no time; at least and at most whatever it names. */
const DEFAULT_RETRY_MS = 2_000;
const MIN_RETRY_MS = 500;
/** The server forgets a place in line that nobody has asked for in 15 s. */
const MAX_RETRY_MS = 8_000;

/**
 * Creates a session on the demo route, which needs no API key. While the server is full it waits in line and tells the place in it.
 * Throws ClientError; the signal's abort rejects with its reason.
 */
export async function createDemoSession(baseUrl: string, body: CreateSession, waiting: (position: number | null) => void, signal: AbortSignal): Promise<CreatedSession> {
  let ticket: string | undefined;
  for (;;) {
    try {
      return await post(new URL('v1/demo/sessions', baseUrl), { ...body, ...(ticket === undefined ? {} : { ticket }) }, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof ClientError) || error.code !== 'at_capacity') throw error;
      waiting(error.body?.position ?? null);
      ticket = error.body?.ticket ?? ticket;
      const retryMs = Math.min(MAX_RETRY_MS, Math.max(MIN_RETRY_MS, error.body?.retryAfterMs ?? DEFAULT_RETRY_MS));
      await delay(retryMs, signal);
    }
  }
}

async function post(url: URL, body: CreateSession, signal: AbortSignal): Promise<CreatedSession> {
  let response: Response;
  try {
    response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body), signal: AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)]) });
  } catch (error) {
    throw new ClientError('network', 'The server can’t be reached.', null, error);
  }
  const text = await response.text();
  if (!response.ok) throw errorOf(response, text);
  return JSON.parse(text) as CreatedSession;
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
