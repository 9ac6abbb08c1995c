import type { LoopTurn } from '../../../src/engine/scheduler/LoopTurn.ts';

export function turnOf(changes: Partial<LoopTurn> = {}): LoopTurn {
  return {
    loopId: 'video',
    kernel: 'video_continuation',
    component: 'denoise',
    state: { version: 0, plan: {}, blocks: [] },
    lineage: 0,
    conditioning: { kind: 'live', version: 1, prompt: { tk: 9 } },
    leadsTo: 0,
    after: [],
    opensMedia: false,
    boosted: false,
    ...changes,
  };
}
