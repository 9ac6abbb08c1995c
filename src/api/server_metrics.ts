import type { EventLoopMonitor } from '../observe/EventLoopMonitor.ts';
import type { Metrics, StatMetric } from '../observe/Metrics.ts';
import { DEGRADE_RUNGS } from '../protocol/degraded.ts';
import { SESSION_STATES } from '../protocol/rest.ts';
import type { SessionRegistry } from '../sessions/SessionRegistry.ts';
import type { EngineStats, MediaStats } from '../streams/messages.ts';

const MS = 0.001;
const counter = (name: string, help: string, scale = 1): StatMetric => ({ name, help, type: 'counter', scale });
const gauge = (name: string, help: string, scale = 1): StatMetric => ({ name, help, type: 'gauge', scale });

/** A metric for everything that the engine counts. */
export const ENGINE_METRICS: Readonly<Record<keyof EngineStats, StatMetric>> = {
  sessions: gauge('segue_engine_sessions', 'Sessions that the engine holds'),
  unitsExecuted: counter('segue_engine_units_executed_total', 'Units of work whose result was committed'),
  unitsDiscarded: counter('segue_engine_units_discarded_total', 'Units whose result was void when it came, mostly because of a fence'),
  unitsFailed: counter('segue_engine_units_failed_total', 'Units that failed'),
  executorTakeovers: counter('segue_engine_executor_takeovers_total', 'Times that a spare executor went on for one that stopped answering'),
  deadlinesMissed: counter('segue_engine_deadlines_missed_total', 'Frames that were ready later than they were due'),
  deviceBusyMs: counter('segue_engine_device_busy_seconds_total', 'Time that devices spent on units, all devices together', MS),
  blocksLive: gauge('segue_engine_blocks_live', 'Tensor blocks that executors hold'),
  blockBytes: gauge('segue_engine_block_bytes', 'Bytes of tensor blocks that executors hold'),
  keptChunks: counter('segue_engine_kept_chunks_total', 'Committed chunks handed to the storage thread'),
  keepingMs: counter('segue_engine_keeping_seconds_total', 'Time of the engine thread spent on handing them over, snapshots included', MS),
  keepingMaxMs: gauge('segue_engine_keeping_max_seconds', 'The longest that one of them took', MS),
};

/** A metric for everything that the media thread counts. */
export const MEDIA_METRICS: Readonly<Record<keyof MediaStats, StatMetric>> = {
  sessions: gauge('segue_media_sessions', 'Sessions that the media thread holds'),
  connections: gauge('segue_media_connections', 'Connections of all sessions, WebRTC and WebSocket'),
  framesSent: counter('segue_media_frames_total', 'Pictures sent, repeated ones included'),
  framesRepeated: counter('segue_media_frames_repeated_total', 'Pictures sent again because nothing newer was there'),
  framesFenced: counter('segue_media_frames_fenced_total', 'Pictures dropped because a fence had made them old'),
  framesSkipped: counter('segue_media_frames_skipped_total', 'Pictures dropped because they were overtaken, or no keyframe could be sent for them'),
  stalePackets: counter('segue_media_stale_packets_total', 'Packets first sent after a fence with an older epoch; stays 0'),
  packetsSent: counter('segue_media_packets_total', 'RTP packets sent'),
  bytesSent: counter('segue_media_sent_bytes_total', 'Bytes of RTP sent'),
  keyFrames: counter('segue_media_key_frames_total', 'Keyframes encoded'),
  encodeMsTotal: counter('segue_media_encode_seconds_total', 'Time spent encoding pictures', MS),
  underruns: counter('segue_media_underruns_total', 'Times that a picture was due and none was there'),
  fences: counter('segue_media_fences_total', 'Epochs raised: interrupts and hard redirects'),
  messagesRefused: counter('segue_media_messages_refused_total', 'Messages on data channels refused for their size or their number'),
  relayDropped: counter('segue_media_relay_dropped_total', 'Encoded pictures and sounds not relayed because the WebSocket side was behind'),
  voiceDropped: counter('segue_media_voice_dropped_total', 'Packets of microphones dropped because they could not be judged in time'),
  intakeDropped: counter('segue_media_intake_dropped_total', 'Frames of cameras dropped before they were decoded'),
  lipSyncMaxMs: gauge('segue_media_lip_sync_max_seconds', 'Largest skew of sound and picture at the source since the last report', MS),
  lateMaxMs: gauge('segue_media_late_max_seconds', 'Largest delay of a picture from when it was due to its packets since the last report', MS),
};

/** What is read from the control thread itself, when scraped. */
export function describeServer(metrics: Metrics, registry: SessionRegistry, monitor: EventLoopMonitor): void {
  metrics.gaugeBy('segue_event_loop_delay_seconds', 'Delay of the control thread over the last one to two minutes', 'quantile', () => {
    const { p50Ms, p99Ms, maxMs } = monitor.read();
    return { '0.5': p50Ms * MS, '0.99': p99Ms * MS, '1': maxMs * MS };
  });
  // Under the names that every Node process has them.
  metrics.gauge('process_resident_memory_bytes', 'Memory of the process', () => process.memoryUsage.rss());
  metrics.gaugeBy('nodejs_active_resources', 'Timers, sockets and the like that keep the control thread running', 'type', () => {
    const counts: Record<string, number> = {};
    for (const type of process.getActiveResourcesInfo()) counts[type] = (counts[type] ?? 0) + 1;
    return counts;
  });
  metrics.gaugeBy('segue_sessions', 'Live sessions by state', 'state', () => {
    const counts: Record<string, number> = Object.fromEntries(SESSION_STATES.map((state) => [state, 0]));
    for (const { state } of registry.live) counts[state] = (counts[state] ?? 0) + 1;
    return counts;
  });
  metrics.gaugeBy('segue_sessions_degraded', 'Live sessions by the rung of the degrade ladder that they are on', 'rung', () => {
    const counts: Record<string, number> = Object.fromEntries(DEGRADE_RUNGS.map((rung) => [rung, 0]));
    for (const { degraded } of registry.live) if (degraded !== null) counts[degraded.rung]! += 1;
    return counts;
  });
  metrics.counter('segue_sessions_created_total', 'Sessions opened since the start', () => registry.created);
  metrics.gauge('segue_admission_queue_length', 'Clients that wait for capacity', () => registry.queue.length);
}
