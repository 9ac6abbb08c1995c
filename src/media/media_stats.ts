import type { MediaStats } from '../streams/messages.ts';
import type { MediaSession } from './MediaSession.ts';

export const NO_STATS: MediaStats = {
  sessions: 0,
  connections: 0,
  framesSent: 0,
  framesRepeated: 0,
  framesFenced: 0,
  stalePackets: 0,
  packetsSent: 0,
  bytesSent: 0,
  keyFrames: 0,
  encodeMsTotal: 0,
  framesSkipped: 0,
  underruns: 0,
  fences: 0,
  messagesRefused: 0,
  relayDropped: 0,
  voiceDropped: 0,
  intakeDropped: 0,
};

/** Sums with what a session has counted; gauges and maxima are the caller's. */
export function addCounters(stats: MediaStats, { counters, pictures, voiceDropped, intakeDropped }: MediaSession): MediaStats {
  return {
    ...stats,
    framesSent: stats.framesSent + counters.framesSent,
    framesRepeated: stats.framesRepeated + counters.framesRepeated,
    framesFenced: stats.framesFenced + pictures.counters.framesFenced,
    stalePackets: stats.stalePackets + counters.stalePackets,
    packetsSent: stats.packetsSent + counters.packetsSent,
    bytesSent: stats.bytesSent + counters.bytesSent,
    keyFrames: stats.keyFrames + counters.keyFrames,
    encodeMsTotal: stats.encodeMsTotal + pictures.counters.encodeMsTotal,
    framesSkipped: (stats.framesSkipped ?? 0) + pictures.counters.framesSkipped,
    underruns: (stats.underruns ?? 0) + pictures.counters.underruns,
    fences: (stats.fences ?? 0) + counters.fences,
    messagesRefused: (stats.messagesRefused ?? 0) + counters.messagesRefused,
    voiceDropped: (stats.voiceDropped ?? 0) + voiceDropped,
    intakeDropped: (stats.intakeDropped ?? 0) + intakeDropped,
  };
}
