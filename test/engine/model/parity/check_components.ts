import { Tensor } from 'onnxruntime-node';
import { CompileCache } from '../../../../src/engine/compile/CompileCache.ts';
import { fillNormal, fillUniform } from '../../../../src/engine/model/philox.ts';
import { graphPath } from '../../../../src/engine/model/spec/load_model_spec.ts';
import type { ModelSpec } from '../../../../src/engine/model/spec/model_spec.ts';
import { finding, type Finding } from './finding.ts';
import { readFixture, StoredNumbers, type Described } from './stored_numbers.ts';

/** How an input is made: given, or drawn from Philox with a seed of its own. */
type Recipe = { readonly shape: readonly number[]; readonly dtype: 'float32' | 'int64' | 'uint8' } & (
  | { readonly draw: 'values'; readonly values: readonly number[] }
  | { readonly draw: 'normal' | 'uniform'; readonly seed: number }
  | { readonly draw: 'ints'; readonly seed: number; readonly low: number; readonly high: number }
  | { readonly draw: 'blocks'; readonly seed: number; readonly side: number }
);

type Fixture = Readonly<Record<string, { readonly inputs: Readonly<Record<string, Recipe>>; readonly outputs: Readonly<Record<string, Described>> }>>;

/** C0: every graph, compiled as an executor compiles it, against the PyTorch module that it was exported from. One finding per component, in shares of the tolerance of each output. */
export async function checkComponents(spec: ModelSpec): Promise<Finding[]> {
  const fixture = readFixture<Fixture>('c0.json');
  const stored = new StoredNumbers('c0.f32');
  const cache = new CompileCache({ modelId: spec.modelId, provider: 'cpu', intraOpThreads: 1 });
  try {
    const findings: Finding[] = [];
    for (const [id, { inputs, outputs }] of Object.entries(fixture)) {
      const session = await cache.compile(id, spec.components[id]!, graphPath(spec, id));
      const results = await session.run(Object.fromEntries(Object.entries(inputs).map(([name, recipe]) => [name, tensorOf(recipe)])));
      const shares = Object.entries(outputs).map(([name, described]) => stored.difference(results[name]!.data as Float32Array, described) / described.tolerance);
      findings.push(finding('C0', id, Math.max(...shares), 1));
    }
    return findings;
  } finally {
    await cache.clear();
  }
}

function tensorOf(recipe: Recipe): Tensor {
  const values = valuesOf(recipe);
  const dims = [...recipe.shape];
  switch (recipe.dtype) {
    case 'float32':
      return new Tensor('float32', Float32Array.from(values), dims);
    case 'int64':
      return new Tensor('int64', BigInt64Array.from(Array.from(values, BigInt)), dims);
    case 'uint8':
      return new Tensor('uint8', Uint8Array.from(values), dims);
  }
}

function valuesOf(recipe: Recipe): ArrayLike<number> & Iterable<number> {
  if (recipe.draw === 'values') return recipe.values;
  const counter = { seed: recipe.seed, lineage: 0, chunk: 0, step: 0, stream: 0 };
  const size = recipe.shape.reduce((product, axis) => product * axis, 1);
  if (recipe.draw === 'blocks') return blocks(counter, recipe.shape, recipe.side);
  const drawn = new Float32Array(size);
  if (recipe.draw === 'normal') fillNormal(counter, drawn);
  else fillUniform(counter, drawn);
  return recipe.draw === 'ints' ? Array.from(drawn, (share) => Math.floor(share * (recipe.high - recipe.low) + recipe.low)) : drawn;
}

/** A picture of squares of one colour each. */
function blocks(counter: Parameters<typeof fillUniform>[0], [batch, height, width, colours]: readonly number[], side: number): Uint8Array {
  const [rows, columns] = [height! / side, width! / side];
  const coarse = new Float32Array(batch! * rows * columns * colours!);
  fillUniform(counter, coarse);
  return Uint8Array.from({ length: batch! * height! * width! * colours! }, (_, at) => {
    const colour = at % colours!;
    const column = Math.floor(at / colours!) % width!;
    const row = Math.floor(at / (colours! * width!)) % height!;
    const picture = Math.floor(at / (colours! * width! * height!));
    return Math.floor(coarse[((picture * rows + Math.floor(row / side)) * columns + Math.floor(column / side)) * colours! + colour]! * 256);
  });
}
