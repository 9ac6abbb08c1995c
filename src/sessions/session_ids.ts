import { randomBytes } from 'node:crypto';

const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/**
 * A ULID (sortable by creation time, 80 random bits) with a prefix that says what it names.
 * Source: github.com/ulid/spec.
 *
 * @example
 * createId('ses'); // 'ses_01KB9ZJ4N2W8Q5T0R7E6YXCVBM'
 */
export function createId(prefix: string, atMs: number = Date.now()): string {
  let time = '';
  for (let rest = atMs, digit = 0; digit < 10; digit++, rest = Math.floor(rest / 32)) time = CROCKFORD[rest % 32]! + time;
  let random = '';
  for (const byte of randomBytes(16)) random += CROCKFORD[byte % 32]!;
  return `${prefix}_${time}${random}`;
}
