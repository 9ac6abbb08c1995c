/** How a request came to take effect, as `applied` tells it. */
export const APPLIED_HOWS = ['interrupted', 'held', 'released', 'restart', 'steer', 'continue', 'cut', 'blend', 'rewind', 'paused', 'resumed'] as const;
export type AppliedHow = (typeof APPLIED_HOWS)[number];
