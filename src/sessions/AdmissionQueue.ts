import { randomBytes } from 'node:crypto';
import type { Clock } from '../observe/clock.ts';

/** A place not asked about for this long is given up: whoever waits polls well within it. */
export const TICKET_TTL_MS = 15_000;
/** How long the first in line is told to wait; each place behind adds as much, up to {@link MAX_RETRY_MS}. */
const RETRY_MS = 1_000;
/** Well under the time to live, so that an honest client never loses its place. */
const MAX_RETRY_MS = 5_000;

interface Place {
  readonly ticket: string;
  expiresAtMs: number;
  /** A try for this place is under way: a second one at the same time must not take a second session. */
  trying: boolean;
}

export interface QueuePlace {
  readonly ticket: string;
  /** 1 = next. */
  readonly position: number;
  readonly retryAfterMs: number;
}

/**
 * Who waits for capacity, in order. Clients poll with their ticket; no connection is held open for them. Tickets are unguessable,
 * so that nobody takes another's place.
 */
export class AdmissionQueue {
  readonly #clock: Clock;
  readonly #maxWaiting: number;
  readonly #places: Place[] = [];

  /** @param maxWaiting beyond that, nobody gets a place. */
  constructor(clock: Clock, maxWaiting: number) {
    this.#clock = clock;
    this.#maxWaiting = maxWaiting;
  }

  get length(): number {
    this.#expire();
    return this.#places.length;
  }

  /** The place of a ticket, kept for another {@link TICKET_TTL_MS}; null for an unknown or expired one. */
  find(ticket: string): QueuePlace | null {
    this.#expire();
    const at = this.#places.findIndex((place) => place.ticket === ticket);
    if (at < 0) return null;
    this.#places[at]!.expiresAtMs = this.#clock.now() + TICKET_TTL_MS;
    return this.#describe(at);
  }

  /** A place at the end; null when the queue is full. */
  join(): QueuePlace | null {
    this.#expire();
    if (this.#places.length >= this.#maxWaiting) return null;
    this.#places.push({ ticket: randomBytes(16).toString('base64url'), expiresAtMs: this.#clock.now() + TICKET_TTL_MS, trying: false });
    return this.#describe(this.#places.length - 1);
  }

  /** Marks a try for the ticket's place; false when one is under way or the ticket is gone. End it with {@link endTry} or {@link leave}. */
  beginTry(ticket: string): boolean {
    const place = this.#places.find((candidate) => candidate.ticket === ticket);
    if (!place || place.trying) return false;
    place.trying = true;
    return true;
  }

  /** The try failed: the place is kept. */
  endTry(ticket: string): void {
    const place = this.#places.find((candidate) => candidate.ticket === ticket);
    if (!place) return;
    place.trying = false;
    place.expiresAtMs = this.#clock.now() + TICKET_TTL_MS;
  }

  leave(ticket: string): void {
    const at = this.#places.findIndex((place) => place.ticket === ticket);
    if (at >= 0) this.#places.splice(at, 1);
  }

  #describe(at: number): QueuePlace {
    return { ticket: this.#places[at]!.ticket, position: at + 1, retryAfterMs: Math.min(MAX_RETRY_MS, RETRY_MS * (at + 1)) };
  }

  #expire(): void {
    const now = this.#clock.now();
    for (let at = this.#places.length - 1; at >= 0; at--) {
      const place = this.#places[at]!;
      if (!place.trying && place.expiresAtMs <= now) this.#places.splice(at, 1);
    }
  }
}
