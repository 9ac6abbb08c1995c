/** Items of one hand-over that wait on the consumer's side; the producer is held while they do. Two: one that is taken next, one that is made meanwhile. */
export const HANDOVER_ITEMS = 2;
