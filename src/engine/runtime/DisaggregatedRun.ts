import type { Clock } from '../../observe/clock.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { TraceEvent } from '../../streams/messages.ts';
import { unitBytes } from '../model/spec/tensor_signature.ts';
import type { DisaggregatedProgram, HandOver } from '../programs/disaggregate.ts';
import type { HandOverEvent } from '../programs/InlineProgram.ts';
import type { TransferScheduler } from '../scheduler/TransferScheduler.ts';
import type { Connector } from '../transport/Connector.ts';
import { manifestBytes, type TransferManifest } from '../transport/TransferManifest.ts';
import { HandOverQueue } from './HandOverQueue.ts';
import type { InlineRun, RunEnd, RunOpening, RunUsage } from './InlineRun.ts';

export interface DisaggregatedOpening extends Omit<RunOpening, 'program' | 'handOver' | 'role' | 'record' | 'withinMs'> {
  readonly program: DisaggregatedProgram;
}

export interface DisaggregatedDependencies {
  readonly clock: Clock;
  readonly transfers: TransferScheduler;
  readonly connector: Connector;
  readonly trace: (event: TraceEvent) => void;
  readonly openStage: (opening: RunOpening) => InlineRun;
}

/** A transfer of one process takes well under a millisecond; one that takes this long will not come. */
const TRANSFER_WATCHDOG_MS = 5_000;

/**
 * One run whose stages are in pools of their own: each stage is a run, on a device of its role; what flows between them is transferred by manifest and waits in a bounded queue. One stage that fails or
 * is cancelled ends the others, and the run ends when nothing of any is left.
 */
export class DisaggregatedRun {
  readonly #opening: DisaggregatedOpening;
  readonly #deps: DisaggregatedDependencies;
  readonly #stages = new Map<string, InlineRun>();
  readonly #queues = new Map<string, HandOverQueue>();
  readonly #ends = new Map<string, RunEnd>();
  readonly #startMs: number;
  #numTransfers = 0;
  #opened = false;
  #cancelled = false;

  /** Opens every stage or none. @throws as the opening of a run, for the first stage that can't be opened. */
  constructor(opening: DisaggregatedOpening, deps: DisaggregatedDependencies) {
    this.#opening = opening;
    this.#deps = deps;
    this.#startMs = deps.clock.now();
    const { program, runId } = opening;
    for (const handOver of program.handOvers) this.#queues.set(handOver.id, new HandOverQueue((blocks) => this.#stages.get(handOver.consumer)!.device.pool.release(blocks)));
    try {
      for (const [role, stage] of program.stages) {
        const { emit, seed, channels } = opening;
        const handOver = (event: HandOverEvent, done: () => void): void => void this.#handOver(event, done);
        this.#stages.set(role, deps.openStage({ runId: `${runId}/${role}`, program: stage, inputs: this.#inputsOf(role), seed, channels, withinMs: null, record: null, role, emit, handOver, ended: (end) => this.#stageEnded(role, end) }));
      }
    } catch (error) {
      this.#cancelled = true;
      for (const stage of this.#stages.values()) stage.cancel();
      throw error;
    }
    this.#opened = true;
  }

  /** Every stage ends at its boundary. Idempotent. */
  cancel(): void {
    this.#cancelled = true;
    for (const stage of this.#stages.values()) stage.cancel();
  }

  #inputsOf(role: string): Readonly<Record<string, unknown>> {
    const { program, inputs } = this.#opening;
    const between = program.handOvers.flatMap(({ id, producer, consumer }) => {
      const queue = this.#queues.get(id)!;
      return [...(producer === role ? [[id, queue.permits()] as const] : []), ...(consumer === role ? [[id, queue.items()] as const] : [])];
    });
    const own = new Set(program.inputsOf(role));
    // What no input of the program is named like is the first stage's to refuse.
    return { ...Object.fromEntries(Object.entries(inputs).filter(([name]) => own.has(name) || !program.inputNames.has(name))), ...Object.fromEntries(between) };
  }

  async #handOver({ handOver: id, value, blocks }: HandOverEvent, done: () => void): Promise<void> {
    const handOver = this.#opening.program.handOvers.find((each) => each.id === id)!;
    const queue = this.#queues.get(id)!;
    const consumer = this.#stages.get(handOver.consumer)!;
    if (handOver.bundle === null || blocks.length === 0) {
      queue.push(value, []);
      return done();
    }
    const producer = this.#stages.get(handOver.producer)!;
    if (producer.device === consumer.device) {
      // Both read the same memory: counted again, and nothing moves.
      consumer.device.pool.retain(blocks);
      queue.push(value, blocks);
      return done();
    }
    const tensors = Object.entries(handOver.bundle.tensors);
    const received = consumer.allocate(tensors.map(([, tensor]) => ({ bytes: unitBytes(tensor), memory: tensor.memory })));
    if (received === null) {
      // It has ended, or would take more than it was promised: with the latter nothing can go on.
      if (!consumer.closed) consumer.fault(new SegueError('internal', `${id}: no room was reserved for what is handed over`), true);
      return done();
    }
    const from = handOver.bundle.blocksOf(value);
    const manifest = this.#manifest(handOver, tensors.map(([name, { dtype, shape, memory }], at) => ({ name, dtype, shape, memory, from: from[name]!, to: received[at]! })));
    try {
      await this.#move(manifest, handOver);
      queue.push(handOver.bundle.withBlocks(value, Object.fromEntries(tensors.map(([name], at) => [name, received[at]!]))), received);
    } catch (error) {
      consumer.device.pool.release(received);
      const message = error instanceof Error ? error.message : String(error);
      consumer.fault(error instanceof SegueError ? error : new SegueError('unit_failed', message, { cause: error }), true);
    }
    done();
  }

  async #move(manifest: TransferManifest, { producer, consumer }: HandOver): Promise<void> {
    const { transfers, connector, clock } = this.#deps;
    const [source, destination] = [this.#stages.get(producer)!, this.#stages.get(consumer)!];
    const bytes = manifestBytes(manifest);
    const startMs = clock.now();
    this.#trace('start', manifest, { bytes });
    const expired = Promise.withResolvers<never>();
    const watchdog = clock.schedule(startMs + TRANSFER_WATCHDOG_MS, () => expired.reject(new SegueError('timed_out', `transfer ${manifest.transferId} did not end within ${TRANSFER_WATCHDOG_MS} ms`)));
    const { worker } = source.device;
    try {
      const moved = transfers.move(`${source.device.workerId} → ${destination.device.workerId}`, manifest.priority, () =>
        connector.transfer(manifest, { view: (block) => worker.view?.(block) }, { put: ({ to, memory }, { dtype, dims, buffer }) => destination.device.worker.put?.([{ id: to, sessionId: destination.sessionId, memory, published: false, dtype, dims, buffer }]) }),
      );
      await Promise.race([moved, expired.promise]);
      this.#trace('complete', manifest, { bytes }, clock.now() - startMs);
    } catch (error) {
      this.#trace('fail', manifest, { bytes, message: error instanceof Error ? error.message : String(error) }, clock.now() - startMs);
      throw error;
    } finally {
      watchdog.cancel();
    }
  }

  #manifest({ producer, consumer }: HandOver, tensors: TransferManifest['tensors']): TransferManifest {
    const { runId } = this.#opening;
    const party = (role: string) => ({ runId, role, workerId: this.#stages.get(role)!.device.workerId });
    return { transferId: `${runId}/transfer-${++this.#numTransfers}`, producer: party(producer), consumer: party(consumer), tensors, layout: 'row_major', location: 'host', lifetime: 'run', cacheKey: null, priority: 0 };
  }

  #stageEnded(role: string, end: RunEnd): void {
    const { handOvers, stages } = this.#opening.program;
    this.#ends.set(role, end);
    for (const { id, producer, consumer } of handOvers) {
      if (producer === role && end.outcome === 'completed') this.#queues.get(id)!.end();
      if (consumer === role) this.#queues.get(id)!.close();
    }
    if (end.outcome !== 'completed') for (const stage of this.#stages.values()) stage.cancel();
    if (this.#opened && this.#ends.size === stages.size) this.#opening.ended(this.#end());
  }

  #end(): RunEnd {
    const ends = [...this.#ends.values()];
    const failed = ends.find((end) => end.outcome === 'failed');
    if (failed !== undefined) return failed;
    if (this.#cancelled || ends.some(({ outcome }) => outcome === 'cancelled')) return { outcome: 'cancelled' };
    const usages = ends.flatMap((end) => (end.outcome === 'completed' ? [end.usage] : []));
    const usage: RunUsage = { units: sum(usages, ({ units }) => units), deviceMs: sum(usages, ({ deviceMs }) => deviceMs), elapsedMs: this.#deps.clock.now() - this.#startMs, late: false };
    return { outcome: 'completed', usage, record: null };
  }

  #trace(name: 'start' | 'complete' | 'fail', { transferId, producer, consumer, tensors }: TransferManifest, args: Readonly<Record<string, string | number>>, durationMs?: number): void {
    const { clock, trace, connector } = this.#deps;
    trace({
      type: 'trace.transfer',
      name,
      atMs: clock.now() - (durationMs ?? 0),
      ...(durationMs === undefined ? {} : { durationMs }),
      sessionId: producer.runId,
      programId: this.#opening.program.spec.programId,
      workerId: producer.workerId,
      roleId: producer.role,
      args: { transfer: transferId, connector: connector.name, tensors: tensors.map((tensor) => tensor.name).join(','), to: consumer.workerId, toRole: consumer.role, ...args },
    });
  }
}

function sum<Value>(values: readonly Value[], of: (value: Value) => number): number {
  return values.reduce((total, value) => total + of(value), 0);
}
