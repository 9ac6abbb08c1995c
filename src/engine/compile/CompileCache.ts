import { InferenceSession, env } from 'onnxruntime-node';
import { signatureText, type TensorSignature } from '../model/spec/tensor_signature.ts';
import type { ComponentSpec } from '../model/spec/component_spec.ts';

/** Everything that makes one compiled session differ from another. */
export interface CompileKey {
  readonly modelId: string;
  readonly componentId: string;
  readonly shapeSignature: string;
  readonly precision: string;
  readonly provider: string;
  readonly graphCapture: 'none';
  readonly flags: Readonly<Record<string, string>>;
}

export interface CompileOptions {
  readonly modelId: string;
  readonly provider: 'cpu' | 'cuda';
  readonly intraOpThreads: number;
}

export class CompileError extends Error {
  override readonly name = 'CompileError';
  readonly componentId: string;

  constructor(componentId: string, message: string, options?: ErrorOptions) {
    super(`${componentId}: ${message}`, options);
    this.componentId = componentId;
  }
}

/**
 * Compiled graphs of one executor thread, by structured key. ONNX Runtime sessions can't cross threads, so each executor has a cache of its own.
 */
export class CompileCache {
  readonly #sessions = new Map<string, InferenceSession>();
  readonly #options: CompileOptions;

  constructor(options: CompileOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#sessions.size;
  }

  keyOf(componentId: string, component: ComponentSpec): CompileKey {
    const { modelId, provider, intraOpThreads } = this.#options;
    return {
      modelId,
      componentId,
      shapeSignature: Object.entries(component.inputs).map(([name, signature]) => `${name}:${signatureText(signature)}`).join(';'),
      precision: component.precision,
      provider,
      graphCapture: 'none',
      flags: { intraOpThreads: String(intraOpThreads), ...Object.fromEntries(Object.entries(SESSION_FLAGS)) },
    };
  }

  /**
   * The session for a component, compiled at first use.
   * @param path absolute path of its graph; weights shared between graphs lie beside it.
   * @throws {CompileError} the graph can't be loaded, or its inputs and outputs aren't those of the spec.
   */
  async compile(componentId: string, component: ComponentSpec, path: string): Promise<InferenceSession> {
    const key = canonical(this.keyOf(componentId, component));
    const existing = this.#sessions.get(key);
    if (existing !== undefined) return existing;
    let session: InferenceSession;
    try {
      session = await InferenceSession.create(path, {
        executionProviders: [this.#options.provider],
        // One thread per executor: a second one measured 1.3–1.5× on idle cores and up to 3× slower on shared ones.
        intraOpNumThreads: this.#options.intraOpThreads,
        interOpNumThreads: 1,
        extra: SESSION_CONFIG,
      });
    } catch (error) {
      throw new CompileError(componentId, error instanceof Error ? error.message : String(error), { cause: error });
    }
    try {
      compare(componentId, 'input', component.inputs, session.inputMetadata);
      compare(componentId, 'output', component.outputs, session.outputMetadata);
    } catch (error) {
      await session.release();
      throw error;
    }
    this.#sessions.set(key, session);
    return session;
  }

  get(componentId: string, component: ComponentSpec): InferenceSession | undefined {
    return this.#sessions.get(canonical(this.keyOf(componentId, component)));
  }

  /** Frees every session; the next `compile` loads anew. */
  async clear(): Promise<void> {
    const sessions = [...this.#sessions.values()];
    this.#sessions.clear();
    for (const session of sessions) await session.release();
  }
}

export function runtimeVersion(): string {
  return `onnxruntime ${env.versions.node ?? 'unknown'}`;
}

/** Spinning steals the core from everybody else; denormals are tens of times slower and mean nothing here. */
const SESSION_FLAGS = { 'session.intra_op.allow_spinning': '0', 'session.set_denormal_as_zero': '1' } as const;
const SESSION_CONFIG = { session: { intra_op: { allow_spinning: '0' }, set_denormal_as_zero: '1' } };

function canonical(key: CompileKey): string {
  return JSON.stringify([key.modelId, key.componentId, key.shapeSignature, key.precision, key.provider, key.graphCapture, Object.entries(key.flags).sort()]);
}

function compare(componentId: string, side: 'input' | 'output', spec: Readonly<Record<string, Pick<TensorSignature, 'dtype' | 'shape'>>>, graph: readonly InferenceSession.ValueMetadata[]): void {
  const actual = Object.fromEntries(graph.map((value) => [value.name, value.isTensor ? `${value.type}[${value.shape.map((axis) => (typeof axis === 'string' ? 'batch' : axis)).join(',')}]` : 'not a tensor']));
  const expected = Object.fromEntries(Object.entries(spec).map(([name, signature]) => [name, signatureText(signature)]));
  for (const name of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
    if (expected[name] !== actual[name]) throw new CompileError(componentId, `${side} ${name} of the graph: expected ${expected[name] ?? 'nothing'}, got ${actual[name] ?? 'nothing'}`);
  }
}
