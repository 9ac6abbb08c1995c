import { Type, type Static } from 'typebox';

/** The one error table: stable codes, the HTTP status each has, and whether the same call may succeed later. */
export const ERRORS = {
  bad_request: { status: 400, retryable: false },
  bad_json: { status: 400, retryable: false },
  bad_sdp: { status: 400, retryable: false },
  bad_image: { status: 400, retryable: false },
  unsupported_protocol: { status: 400, retryable: false },
  prompt_not_understood: { status: 422, retryable: false },
  adapter_not_usable: { status: 422, retryable: false },
  plan_not_usable: { status: 422, retryable: false },
  /** What lies in a model's directory can't take the place of what is served. */
  model_not_usable: { status: 422, retryable: false },
  unauthorized: { status: 401, retryable: false },
  token_expired: { status: 401, retryable: false },
  forbidden: { status: 403, retryable: false },
  not_found: { status: 404, retryable: false },
  session_not_found: { status: 404, retryable: false },
  connection_not_found: { status: 404, retryable: false },
  turn_not_found: { status: 404, retryable: false },
  model_not_found: { status: 404, retryable: false },
  program_not_found: { status: 404, retryable: false },
  method_not_allowed: { status: 405, retryable: false },
  request_timeout: { status: 408, retryable: true },
  conflict: { status: 409, retryable: false },
  not_presented: { status: 409, retryable: true },
  session_closed: { status: 410, retryable: false },
  /** What is asked about was presented, and isn't kept (any more). */
  not_kept: { status: 410, retryable: false },
  budget_exhausted: { status: 410, retryable: false },
  payload_too_large: { status: 413, retryable: false },
  unsupported_media_type: { status: 415, retryable: false },
  rate_limited: { status: 429, retryable: true },
  headers_too_large: { status: 431, retryable: false },
  internal: { status: 500, retryable: true },
  unit_failed: { status: 500, retryable: true },
  engine_unavailable: { status: 503, retryable: true },
  at_capacity: { status: 503, retryable: true },
  draining: { status: 503, retryable: true },
  timed_out: { status: 504, retryable: true },
} as const satisfies Record<string, { readonly status: number; readonly retryable: boolean }>;

export type ErrorCode = keyof typeof ERRORS;

export const ErrorBody = Type.Object(
  {
    code: Type.Enum(Object.keys(ERRORS) as ErrorCode[]),
    message: Type.String(),
    /** The key or field at fault, as a path. */
    param: Type.Optional(Type.String()),
    retryable: Type.Boolean(),
    retryAfterMs: Type.Optional(Type.Integer({ minimum: 0 })),
    /** Place in the admission queue, 1 = next. */
    position: Type.Optional(Type.Integer({ minimum: 1 })),
    /** When that place is likely to have its turn, ms, from how long sessions last. Absent where nothing is known of that. */
    estimateMs: Type.Optional(Type.Integer({ minimum: 0 })),
    /** Keeps that place: sent with the next try of the same call. */
    ticket: Type.Optional(Type.String()),
  },
  { $id: 'Error' },
);
export type ErrorBody = Static<typeof ErrorBody>;

export interface ErrorDetails {
  readonly param?: string;
  readonly retryAfterMs?: number;
  readonly position?: number;
  readonly estimateMs?: number;
  readonly ticket?: string;
  readonly cause?: unknown;
}

/** An error that a client is told about, by code. */
export class SegueError extends Error {
  override readonly name = 'SegueError';
  readonly code: ErrorCode;
  readonly details: Omit<ErrorDetails, 'cause'>;

  constructor(code: ErrorCode, message: string, { cause, ...details }: ErrorDetails = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.details = details;
  }

  /** The error that a body tells of. */
  static from({ code, message, param, retryAfterMs, position, estimateMs, ticket }: ErrorBody): SegueError {
    return new SegueError(code, message, {
      ...(param === undefined ? {} : { param }),
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      ...(position === undefined ? {} : { position }),
      ...(estimateMs === undefined ? {} : { estimateMs }),
      ...(ticket === undefined ? {} : { ticket }),
    });
  }

  get status(): number {
    return ERRORS[this.code].status;
  }

  toBody(): ErrorBody {
    return { code: this.code, message: this.message, retryable: ERRORS[this.code].retryable, ...this.details };
  }
}
