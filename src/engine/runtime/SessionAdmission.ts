import type { Clock } from '../../observe/clock.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { ControlToEngine, EngineToControl, TraceEvent } from '../../streams/messages.ts';
import type { KeptStory } from '../../streams/storage_messages.ts';
import type { MemoryBudget } from '../memory/BlockPool.ts';
import { evict } from '../memory/eviction.ts';
import type { RealtimeProgram } from '../programs/RealtimeProgram.ts';
import type { PlacementScheduler } from '../scheduler/PlacementScheduler.ts';
import type { Device } from './Device.ts';
import { EngineSession } from './EngineSession.ts';
import { resumeStory, type ResumedStory } from './resume_story.ts';
import type { SessionDependencies } from './session_opening.ts';
import type { Speculation } from './Speculation.ts';
import type { WorkSource } from './WorkSource.ts';

export interface SessionAdmissionParts {
  readonly clock: Clock;
  readonly devices: readonly Device<WorkSource>[];
  readonly placement: PlacementScheduler;
  readonly programs: Readonly<Record<string, RealtimeProgram>>;
  /** Live sessions by id: one that is let in is added. */
  readonly sessions: Map<string, EngineSession>;
  /** Of live sessions that have had a draft, by device. */
  readonly speculations: ReadonlyMap<Device<WorkSource>, ReadonlySet<Speculation>>;
  readonly draining: () => boolean;
  readonly retryAfterMs: number;
  readonly session: SessionDependencies;
  readonly toControl: (message: EngineToControl) => void;
  readonly trace: (event: TraceEvent) => void;
}

/** Who is let in, and on which device: checks what is asked for, asks one device after the other, and opens the session with what it was promised. */
export class SessionAdmission {
  readonly #parts: SessionAdmissionParts;

  constructor(parts: SessionAdmissionParts) {
    this.#parts = parts;
  }

  /** Answers with `session.opened` or `session.refused`. */
  open(message: Extract<ControlToEngine, { type: 'session.open' }>): void {
    const { sessionId, model, program: name, seed, prompt, image, adapter = null, plan, strength, channels, story = null, fork, lineage, replay } = message;
    const { clock, devices, placement, programs, sessions, draining, retryAfterMs, session: dependencies, toControl, trace } = this.#parts;
    const refuse = (error: SegueError): void => toControl({ type: 'session.refused', sessionId, error: error.toBody() });
    const program = programs[name];
    if (draining()) return refuse(new SegueError('draining', 'the server is being stopped'));
    if (sessions.has(sessionId)) return refuse(new SegueError('conflict', `session ${sessionId} is open`));
    if (model !== devices[0]!.loaded.modelId) return refuse(new SegueError('model_not_found', `no model ${model}`, { param: 'model' }));
    if (program === undefined) return refuse(new SegueError('program_not_found', `no program ${name}`, { param: 'program' }));
    if (program.tape !== undefined && dependencies.reader === null) return refuse(new SegueError('not_kept', 'nothing is kept here that could be played'));
    const past = fork === undefined ? null : (sessions.get(fork.from)?.forkAt(fork.to90k) ?? null);
    if (fork !== undefined && past === null) return refuse(new SegueError('not_kept', `session ${fork.from} has nothing of that moment in memory`));
    // Gone back to its beginning, and nothing has come after that: only the branch goes on.
    const begun = story !== null && story.chunks.length > 0 ? story : null;
    const future = lineage ?? (begun === null ? story?.lineage : undefined);
    const { branch, branches } = story ?? {};
    let reason = 'no device answers';
    // Blocks lie with one executor: what shares them goes there.
    const ranked = placement.rank(devices).filter((device) => device.roles.length === 0 && (fork === undefined || device === sessions.get(fork.from)!.device));
    for (const device of ranked) {
      const ask = () => device.admission.admit(sessionId, program.demand, { video: channels.video.slots, audio: channels.audio.slots });
      let admission = ask();
      if (!admission.admitted && admission.reason === 'memory' && this.#yieldMemory(device, program.demand.memory)) admission = ask();
      if (!admission.admitted) {
        reason = admission.reason;
        if (reason === 'slots') return refuse(new SegueError('bad_request', `output pools need ${program.demand.minSlots.video} slots`));
        continue;
      }
      trace({ type: 'trace.scheduler', name: 'session.admitted', atMs: clock.now(), sessionId, workerId: device.workerId, args: { load: admission.grant.load, total: device.load } });
      let session: EngineSession;
      let resumed: ResumedStory | null = null;
      try {
        const resume = (kept: KeptStory) => resumeStory(kept, { sessionId, program, seed, device });
        resumed = past?.resumed ?? (begun === null ? null : resume(begun));
        session = new EngineSession({ sessionId, program, seed, prompt, image, adapter, ...(plan === undefined ? {} : { plan }), ...(strength === undefined ? {} : { strength }), ...(replay === undefined ? {} : { replay }), channels, device, grant: admission.grant, resumed, resume, ...(future === undefined ? {} : { lineage: future }), branches: { ...(branch === undefined ? {} : { branch }), ...(branches === undefined ? {} : { branches }) } }, dependencies);
      } catch (error) {
        resumed?.settle();
        admission.grant.release();
        return refuse(error instanceof SegueError ? error : new SegueError('internal', 'the session could not be opened', { cause: error }));
      }
      sessions.set(sessionId, session);
      device.worker.attach(sessionId, { video: channels.video, audio: channels.audio });
      session.start(resumed?.exact ?? null);
      past?.keep(session);
      return;
    }
    trace({ type: 'trace.scheduler', name: 'session.refused', atMs: clock.now(), sessionId, args: { reason } });
    // Another device may have room for it, with memory of its own.
    if (fork !== undefined && devices.length > 1) return refuse(new SegueError('not_kept', `the device of session ${fork.from} is full (${reason})`));
    refuse(reason === 'no device answers' ? new SegueError('engine_unavailable', reason, { retryAfterMs }) : new SegueError('at_capacity', `another session can't be sustained (${reason})`, { retryAfterMs }));
  }

  /** What nobody has asked for yet makes room for whoever comes, no more of it than that takes. True where that freed any. */
  #yieldMemory(device: Device<WorkSource>, wanted: MemoryBudget): boolean {
    const here = [...this.#parts.sessions.values()].filter((session) => session.device === device);
    return evict({ draft: this.#parts.speculations.get(device)!, past: here }, () => device.pool.canReserve(wanted)) > 0;
  }
}
