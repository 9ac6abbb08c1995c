import { ADAPTER_MATRICES, ADAPTER_SCALE, ADAPTER_TENSORS, adapterTarget } from './adapter_spec.ts';
import type { AuthoringFile, KeyPath } from './authoring_file.ts';
import type { CheckpointManifest, ManifestFile, ReportFile } from './checkpoint_manifest.ts';
import type { ComponentSpec } from './component_spec.ts';
import type { DeploymentSpec } from './deployment_spec.ts';
import { expandInitial, type LoopKind, type LoopsFile } from './loop_spec.ts';
import type { ModelFile } from './model_spec.ts';
import type { ParallelFile } from './parallelism_contract.ts';
import type { ProgramsFile } from './program_declaration.ts';
import { signatureText, unitElements, unitShape, type TensorSignature } from './tensor_signature.ts';
import type { Static } from 'typebox';

export interface AuthoredModel {
  readonly model: AuthoringFile<ModelFile>;
  readonly loops: AuthoringFile<Static<typeof LoopsFile>>;
  readonly parallel: AuthoringFile<Static<typeof ParallelFile>>;
  readonly programs: AuthoringFile<Static<typeof ProgramsFile>>;
  readonly deployment: AuthoringFile<DeploymentSpec>;
  readonly manifest: AuthoringFile<ManifestFile>;
  readonly report: AuthoringFile<ReportFile>;
  readonly checkpoint: CheckpointManifest;
  readonly variantId: string;
}

/** What no file can check alone, each a fault that hides no other's. They suppose that what the ones before them check holds. */
export const CROSS_CHECKS: readonly ((authored: AuthoredModel) => void)[] = [checkComponents, checkActions, checkCaches, checkLoops, checkAdapters, checkCapabilities, checkProcessors, checkPrograms, checkDeployment];

/** @throws {SpecError} at the first fault. */
export function crossCheck(authored: AuthoredModel): void {
  for (const check of CROSS_CHECKS) check(authored);
}

/** How many components each kind of loop drives, and the tensors that its kernel binds by name. */
const LOOP_BINDINGS: Readonly<Record<LoopKind, readonly { readonly inputs: readonly string[]; readonly outputs: readonly string[] }[]>> = {
  encoder_chunk: [{ inputs: ['ids'], outputs: [] }],
  start_bank: [{ inputs: ['index'], outputs: ['x'] }],
  ar_decode: [
    { inputs: ['ids', 'position'], outputs: ['logits', 'kv'] },
    { inputs: ['word', 'position', 'kv'], outputs: ['logits', 'kv_next'] },
  ],
  video_continuation: [
    { inputs: ['x', 'eps', 'prev', 'pin', 'pin_frames', 't', 't_prev', 't_next', 'steer', 'speed', 'time_cos', 'time_sin', 'window_mask'], outputs: ['x_next'] },
    { inputs: ['x', 'eps', 'prev', 't_prev', 'steer', 'speed', 'time_cos', 'time_sin', 'window_mask'], outputs: ['k', 'v', 'prev_next'] },
  ],
  vae_tile_decode: [{ inputs: ['x', 'frame'], outputs: ['rgb'] }],
  audio: [{ inputs: ['x', 'frame', 'phase', 'control', 'tail', 'noise'], outputs: ['pcm', 'phase_next', 'control_next', 'tail_next'] }],
  logprob_recompute: [{ inputs: ['ids'], outputs: ['logprobs'] }],
  vae_tile_encode: [
    { inputs: ['rgb'], outputs: ['x', 'entry'] },
    { inputs: ['rgb', 'frame', 'before', 'like', 'recolour', 'eps', 'level'], outputs: ['x'] },
  ],
};

function checkComponents({ model, manifest, report, checkpoint, variantId }: AuthoredModel): void {
  const { components, variants } = model.value;
  if (manifest.value.model !== model.value.modelId) throw manifest.fault(['model'], 'manifest of another model', model.value.modelId, manifest.value.model);
  for (const [id, component] of Object.entries(components)) {
    const path = ['components', id];
    const converted = checkpoint.components[component.loadId];
    if (converted === undefined) throw model.fault([...path, 'loadId'], 'unknown manifest component', Object.keys(checkpoint.components), component.loadId);
    for (const key of ['file', 'shared'] as const) {
      const name = converted[key];
      if (name !== null && checkpoint.files[name] === undefined) throw manifest.fault(['components', component.loadId, key], 'file without checksum', Object.keys(checkpoint.files), name);
    }
    if (component.precision !== variants[variantId]!.precision) throw model.fault([...path, 'precision'], `precision of variant ${variantId}`, variants[variantId]!.precision, component.precision);
    for (const side of ['inputs', 'outputs'] as const) {
      checkSignatures(model, [...path, side], component[side], converted[side]);
    }
  }
  for (const [index, { check, max_difference: difference, tolerance, passed }] of report.value.parity.entries()) {
    if (!passed || difference > tolerance) throw report.fault(['parity', index], `parity of ${check}`, `≤ ${tolerance}`, difference);
  }
}

function checkSignatures(model: AuthoredModel['model'], path: KeyPath, expected: ComponentSpec['inputs'], actual: Readonly<Record<string, TensorSignature>>): void {
  for (const name of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
    const spec = expected[name];
    const converted = actual[name];
    if (spec === undefined) throw model.fault([...path, name], 'tensor of the manifest is missing', signatureText(converted!), 'nothing');
    if (converted === undefined) throw model.fault([...path, name], 'tensor is not in the manifest', Object.keys(actual), name);
    if (signatureText(spec) !== signatureText(converted)) throw model.fault([...path, name], 'shape or type differs from the manifest', signatureText(converted), signatureText(spec));
  }
}

function checkLoops({ model, loops, parallel }: AuthoredModel): void {
  const { components, caches, framesPerChunk } = model.value;
  const kinds = new Map<string, string>();
  for (const [id, loop] of Object.entries(loops.value.loops)) {
    const path = ['loops', id];
    const earlier = kinds.get(loop.kind);
    if (earlier !== undefined) throw loops.fault([...path, 'kind'], `kind is taken by loop ${earlier}`, 'one loop per kind', loop.kind);
    kinds.set(loop.kind, id);
    const bindings = LOOP_BINDINGS[loop.kind];
    if (loop.components.length !== bindings.length) throw loops.fault([...path, 'components'], `components of a ${loop.kind} loop`, bindings.length, loop.components.length);
    for (const [index, componentId] of loop.components.entries()) {
      const component = components[componentId];
      if (component === undefined) throw loops.fault([...path, 'components', index], 'unknown component', Object.keys(components), componentId);
      for (const side of ['inputs', 'outputs'] as const) {
        const missing = bindings[index]![side].find((name) => component[side][name] === undefined);
        if (missing !== undefined) throw model.fault(['components', componentId, side], `loop ${id} binds a tensor that is not there`, missing, Object.keys(component[side]));
      }
    }
    for (const [index, plan] of loop.parallelPlans.entries()) {
      if (parallel.value.plans[plan] === undefined) throw loops.fault([...path, 'parallelPlans', index], 'unknown parallel plan', Object.keys(parallel.value.plans), plan);
    }
    for (const side of ['reads', 'publishes'] as const) {
      for (const [index, cache] of loop.cache[side].entries()) {
        const allowed = caches[cache]?.[side === 'reads' ? 'consumers' : 'producers'];
        if (allowed === undefined) throw loops.fault([...path, 'cache', side, index], 'unknown cache', Object.keys(caches), cache);
        if (!allowed.includes(id)) throw loops.fault([...path, 'cache', side, index], `cache ${cache} doesn't allow this loop`, allowed, id);
      }
    }
    if (loop.kind === 'video_continuation') {
      const { denoise } = loop;
      if (denoise === undefined) throw loops.fault([...path, 'denoise'], 'missing key', 'denoise', 'nothing');
      if (denoise.framesPerChunk !== framesPerChunk) throw loops.fault([...path, 'denoise', 'framesPerChunk'], 'frames per chunk of model.yaml', framesPerChunk, denoise.framesPerChunk);
      if (denoise.reducedSteps !== undefined && denoise.reducedSteps >= denoise.steps) throw loops.fault([...path, 'denoise', 'reducedSteps'], 'fewer than denoise.steps', `< ${denoise.steps}`, denoise.reducedSteps);
      for (const componentId of loop.components) {
        const { inputs } = components[componentId]!;
        const window = Object.keys(inputs).filter((name) => /^k\d+$/.test(name)).length;
        if (window !== denoise.windowChunks) throw loops.fault([...path, 'denoise', 'windowChunks'], `window inputs of ${componentId}`, window, denoise.windowChunks);
        const rotary = unitElements(inputs['time_cos']!);
        if (rotary !== denoise.timeRotary.count) throw loops.fault([...path, 'denoise', 'timeRotary', 'count'], `elements of ${componentId}.time_cos`, rotary, denoise.timeRotary.count);
      }
    }
    if (loop.kind === 'ar_decode') {
      // What one unit keeps, the next one reads.
      const [prefill, step] = loop.components as [string, string];
      const read = signatureText(components[step]!.inputs['kv']!);
      for (const [componentId, output] of [[prefill, 'kv'], [step, 'kv_next']] as const) {
        const kept = signatureText(components[componentId]!.outputs[output]!);
        if (kept !== read) throw model.fault(['components', componentId, 'outputs', output], `shape or type of ${step}.kv`, read, kept);
      }
    }
    if (loop.kind === 'audio') {
      const { inputs } = components[loop.components[0]!]!;
      for (const name of ['phase', 'control', 'tail']) {
        const elements = unitElements(inputs[name]!);
        const given = expandInitial(loop.initial?.[name] ?? [], elements).length;
        if (given !== elements) throw loops.fault([...path, 'initial', name], `elements of ${loop.components[0]}.${name}`, elements, given);
      }
    }
  }
}

/** Adapted graphs take what the plain ones take, and an adapter; adapters fit the manifest and those graphs. */
function checkAdapters({ model, loops, manifest, checkpoint }: AuthoredModel): void {
  const { components, adapters = {} } = model.value;
  const extra = [...ADAPTER_TENSORS, ADAPTER_SCALE];
  let graph: ComponentSpec | null = null;
  for (const [id, loop] of Object.entries(loops.value.loops)) {
    if (loop.adapted === undefined) continue;
    const path = ['loops', id, 'adapted'];
    if (loop.kind !== 'video_continuation') throw loops.fault(path, 'loop that takes adapters', 'video_continuation', loop.kind);
    if (loop.adapted.length !== loop.components.length) throw loops.fault(path, 'as many adapted components as components', loop.components.length, loop.adapted.length);
    for (const [index, adaptedId] of loop.adapted.entries()) {
      const plainId = loop.components[index]!;
      const [plain, adapted] = [components[plainId]!, components[adaptedId]];
      if (adapted === undefined) throw loops.fault([...path, index], 'unknown component', Object.keys(components), adaptedId);
      for (const name of extra) if (adapted.inputs[name] === undefined) throw model.fault(['components', adaptedId, 'inputs', name], 'adapted graph lacks an input', name, Object.keys(adapted.inputs));
      const inputs = Object.fromEntries(Object.entries(adapted.inputs).filter(([name]) => !extra.includes(name)));
      for (const [side, given] of [['inputs', inputs], ['outputs', adapted.outputs]] as const) {
        for (const name of new Set([...Object.keys(plain[side]), ...Object.keys(given)])) {
          const [expected, actual] = [plain[side][name], given[name]].map((signature) => (signature === undefined ? 'nothing' : signatureText(signature)));
          if (expected !== actual) throw model.fault(['components', adaptedId, side, name], `tensor of ${plainId}`, expected, actual);
        }
      }
      for (const name of extra) {
        const [first, own] = [signatureText((graph ?? adapted).inputs[name]!), signatureText(adapted.inputs[name]!)];
        if (first !== own) throw model.fault(['components', adaptedId, 'inputs', name], `tensor of ${loop.adapted[0]}`, first, own);
      }
      graph ??= adapted;
    }
  }
  const declared = Object.entries(adapters);
  if (declared.length === 0) return;
  if (graph === null) throw model.fault(['adapters'], 'no loop has adapted components', 'a loop with `adapted`', 'none');
  const compatibility = manifest.value.adapter_compatibility;
  if (compatibility === undefined) throw manifest.fault(['adapter_compatibility'], 'missing key', 'adapter_compatibility', 'nothing');
  for (const [target, [rows, columns]] of Object.entries(compatibility.targets)) checkTarget(manifest, graph, target, [rows, columns], compatibility.max_rank);
  for (const [id, { file, kind }] of declared) {
    if (!compatibility.kinds.includes(kind)) throw model.fault(['adapters', id, 'kind'], 'kind that the manifest lacks', compatibility.kinds, kind);
    if (checkpoint.files[file] === undefined) throw model.fault(['adapters', id, 'file'], 'file without checksum in the manifest', Object.keys(checkpoint.files), file);
  }
}

/** A target has its place in the packed tensors: layer, columns in, rank; layer, rank, rows out. */
function checkTarget(manifest: AuthoredModel['manifest'], { inputs }: ComponentSpec, target: string, [rows, columns]: readonly [number, number], maxRank: number): void {
  const path = ['adapter_compatibility', 'targets', target];
  const place = adapterTarget(target);
  if (place === null) throw manifest.fault(path, 'matrix that no adapted graph takes', Object.keys(ADAPTER_MATRICES).map((name) => `picture_experts.{layer}.${name}`), target);
  const { down, up } = ADAPTER_MATRICES[place.matrix];
  const [layers, expectedColumns, rank] = unitShape(inputs[down]!);
  const [upLayers, upRank, expectedRows] = unitShape(inputs[up]!);
  if (layers !== upLayers || rank !== upRank || maxRank > rank!) throw manifest.fault(['adapter_compatibility', 'max_rank'], `layers and rank of ${down} and ${up}`, [layers, rank], [upLayers, upRank, maxRank]);
  if (place.layer >= layers!) throw manifest.fault(path, `layers of ${down}`, `0 to ${layers! - 1}`, place.layer);
  if (rows !== expectedRows || columns !== expectedColumns) throw manifest.fault(path, `rows of ${up} and columns of ${down}`, [expectedRows, expectedColumns], [rows, columns]);
}

/** An action conditions steps by an input of its name: one index into its values. */
function checkActions({ model, loops }: AuthoredModel): void {
  const { actions = {}, components } = model.value;
  const steps = Object.values(loops.value.loops).filter(({ kind }) => kind === 'video_continuation').flatMap((loop) => loop.components);
  for (const [name, { values, neutral }] of Object.entries(actions)) {
    if (!values.includes(neutral)) throw model.fault(['actions', name, 'neutral'], 'value that is not listed', values, neutral);
    for (const componentId of steps) {
      const input = components[componentId]?.inputs[name];
      if (input?.dtype !== 'int64' || unitElements(input) !== 1) throw model.fault(['actions', name], `input of ${componentId} that takes it`, `${name}: int64 of one element`, input === undefined ? 'nothing' : signatureText(input));
    }
  }
}

function checkCapabilities({ model, loops }: AuthoredModel): void {
  for (const [capability, ids] of Object.entries(model.value.capabilities)) {
    for (const [index, id] of ids.entries()) {
      if (loops.value.loops[id] === undefined) throw model.fault(['capabilities', capability, index], 'unknown loop', Object.keys(loops.value.loops), id);
    }
  }
}

function checkCaches({ model, loops }: AuthoredModel): void {
  for (const [cache, contract] of Object.entries(model.value.caches)) {
    for (const side of ['producers', 'consumers'] as const) {
      for (const [index, id] of contract[side].entries()) {
        if (loops.value.loops[id] === undefined) throw model.fault(['caches', cache, side, index], 'unknown loop', Object.keys(loops.value.loops), id);
      }
    }
  }
}

function checkProcessors({ model }: AuthoredModel): void {
  for (const [id, processor] of Object.entries(model.value.processors)) {
    for (const key of ['encoder', 'director', 'bank'] as const) {
      if (model.value.components[processor[key]] === undefined) throw model.fault(['processors', id, key], 'unknown component', Object.keys(model.value.components), processor[key]);
    }
  }
}

function checkPrograms({ model, loops, programs }: AuthoredModel): void {
  for (const [id, program] of Object.entries(programs.value.programs)) {
    const path = ['programs', id];
    for (const [index, capability] of program.requires.entries()) {
      if (model.value.capabilities[capability] === undefined) throw programs.fault([...path, 'requires', index], 'capability that the model lacks', Object.keys(model.value.capabilities), capability);
    }
    for (const [role, loop] of Object.entries(program.loops)) {
      if (loops.value.loops[loop] === undefined) throw programs.fault([...path, 'loops', role], 'unknown loop', Object.keys(loops.value.loops), loop);
    }
    for (const [role, processor] of Object.entries(program.processors)) {
      if (model.value.processors[processor] === undefined) throw programs.fault([...path, 'processors', role], 'unknown processor', Object.keys(model.value.processors), processor);
    }
  }
}

function checkDeployment({ model, loops, parallel, programs, deployment }: AuthoredModel): void {
  const plan = parallel.value.plans[deployment.value.parallelPlan];
  if (plan === undefined) throw deployment.fault(['parallelPlan'], 'unknown parallel plan', Object.keys(parallel.value.plans), deployment.value.parallelPlan);
  const replicas = plan.axes.replica ?? [1, 1];
  const { devices } = deployment.value;
  if (devices < replicas[0] || devices > replicas[1]) throw deployment.fault(['devices'], `replicas of plan ${deployment.value.parallelPlan}`, `${replicas[0]} to ${replicas[1]}`, devices);
  for (const [axis, [smallest]] of Object.entries(plan.axes) as [string, [number, number]][]) {
    if (axis === 'replica' || smallest === 1) continue;
    for (const [id, component] of Object.entries(model.value.components)) {
      if (!component.parallelAxes.includes(axis)) throw model.fault(['components', id, 'parallelAxes'], `plan ${deployment.value.parallelPlan} shards every component along ${axis}`, axis, component.parallelAxes);
    }
  }
  for (const [id, loop] of Object.entries(loops.value.loops)) {
    if (!loop.parallelPlans.includes(deployment.value.parallelPlan)) throw loops.fault(['loops', id, 'parallelPlans'], 'plan of the deployment is not valid for this loop', deployment.value.parallelPlan, loop.parallelPlans);
  }
  for (const [index, program] of deployment.value.programs.entries()) {
    if (programs.value.programs[program] === undefined) throw deployment.fault(['programs', index], 'unknown program', Object.keys(programs.value.programs), program);
  }
}
