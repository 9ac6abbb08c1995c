import type { EngineCard } from '../../streams/messages.ts';
import type { RealtimeProgram } from '../programs/RealtimeProgram.ts';
import type { AdmissionController } from '../scheduler/AdmissionController.ts';
import type { CostModel } from '../scheduler/CostModel.ts';
import type { LoadedModel } from '../workers/Worker.ts';

/** A device as its card shows it. */
export interface CardDevice {
  readonly loaded: LoadedModel;
  readonly costs: CostModel;
  readonly admission: AdmissionController;
}

/** What an engine can do and what it costs, as measured: for the control thread, and for whoever routes between engines. */
export function engineCard(programs: Readonly<Record<string, RealtimeProgram>>, devices: readonly CardDevice[]): EngineCard {
  const program = Object.values(programs)[0]!;
  const { loaded, costs, admission } = devices[0]!;
  return {
    modelId: loaded.modelId,
    weightsVersion: loaded.weightsVersion,
    fingerprint: loaded.fingerprint,
    format: program.format,
    framesPerChunk: program.framesPerChunk,
    maxSessions: devices.reduce((sum, device) => sum + device.admission.capacityFor(program.demand), 0),
    deviceSecondsPerSecond: admission.demandOf(program.demand),
    cost: costs.entries(),
    vocabulary: program.vocabulary,
    adapters: program.adapters ?? [],
    programs: Object.entries(programs).map(([id, { spec, receive }]) => ({ id, takesVideo: receive !== undefined && Object.values(spec.nodes).some((node) => node.kind === 'stream' && node.stream === 'frames'), interruption: spec.interruption ?? {} })),
  };
}
