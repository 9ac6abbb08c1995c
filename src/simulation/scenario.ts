import { readFileSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { Type, type Static } from 'typebox';
import { AuthoringFile } from '../engine/model/spec/authoring_file.ts';
import { SpecError } from '../engine/model/spec/spec_error.ts';

const Seconds = Type.Number({ exclusiveMinimum: 0, maximum: 1_000_000 });
const Share = Type.Number({ minimum: 0, maximum: 1 });
const section = <Properties extends Parameters<typeof Type.Object>[0]>(properties: Properties) => Type.Object(properties, { additionalProperties: false });

/** People who do the same: when they come, how long they stay, what they ask for. Times between events are exponential, so that nothing is in step. */
export const Population = section({
  /** Whose share of the devices they count against; shares are compared between tenants. */
  tenant: Type.String({ minLength: 1 }),
  count: Type.Integer({ minimum: 1, maximum: 100_000 }),
  /** Mean time between two of them; absent: all come within the first second. */
  everySeconds: Type.Optional(Seconds),
  /** Mean time for which one stays; absent: to the end. */
  staysSeconds: Type.Optional(Seconds),
  /** How long one who is refused goes on asking. */
  patienceSeconds: Type.Optional(Type.Number({ minimum: 0, maximum: 1_000_000 })),
  redirects: Type.Optional(section({ everySeconds: Seconds, /** Share of them that don't fence. */ seamless: Type.Optional(Share), /** Share of them that were typed first. */ drafted: Type.Optional(Share) })),
  interrupts: Type.Optional(section({ everySeconds: Seconds, /** From pressing to going on. */ pausesSeconds: Seconds })),
  /** A key goes down, or up again. */
  steering: Type.Optional(section({ everySeconds: Seconds })),
});
export type Population = Static<typeof Population>;

/** Milliseconds of one unit alone, or by batch size: sizes between are interpolated. */
const UnitCost = Type.Union([Type.Number({ exclusiveMinimum: 0 }), Type.Record(Type.String({ pattern: '^[1-9][0-9]*$' }), Type.Number({ exclusiveMinimum: 0 }))]);

export const ScenarioFile = section({
  /** Model directory, relative to the scenario: its loops are planned as they are served. */
  model: Type.String({ minLength: 1 }),
  /** Of each component; or the file of a deployment card (`GET /v1/card`), relative to the scenario. */
  costs: Type.Union([Type.String({ minLength: 1 }), Type.Record(Type.String(), UnitCost)]),
  /** How much the time of a unit varies: standard deviation of its logarithm. */
  jitter: Type.Optional(Type.Number({ minimum: 0, maximum: 2 })),
  /** Engines, each a process with devices of its own; whoever comes goes to the least loaded. */
  servers: Type.Integer({ minimum: 1, maximum: 10_000 }),
  devicesPerServer: Type.Integer({ minimum: 1, maximum: 64 }),
  seconds: Type.Number({ minimum: 1, maximum: 86_400 }),
  seed: Type.Integer({ minimum: 0, maximum: 0xffffffff }),
  engine: Type.Optional(
    section({
      policy: Type.Optional(Type.Enum(['unit', 'chunk', 'request'])),
      /** With `chunk` and `request`: whose chunk is next. */
      chunkOrder: Type.Optional(Type.Enum(['deadline', 'fifo', 'round_robin'])),
      admissionBound: Type.Optional(Type.Number({ minimum: 0.05, maximum: 1 })),
      lookAheadMs: Type.Optional(Type.Number({ minimum: 1, maximum: 10_000 })),
      redirectReserve: Type.Optional(Share),
      speculation: Type.Optional(Type.Boolean()),
      /** Of each device, for keys and values and for activations. */
      memoryMegabytes: Type.Optional(Type.Integer({ minimum: 64, maximum: 1_000_000 })),
    }),
  ),
  /** Tokens that the director says: of a plan, and of what it tells about it. */
  words: Type.Optional(section({ plan: Type.Integer({ minimum: 1, maximum: 16 }), narration: Type.Integer({ minimum: 0, maximum: 7 }) })),
  populations: Type.Array(Population, { minItems: 1 }),
});
export type ScenarioFile = Static<typeof ScenarioFile>;

/** A scenario with its paths made absolute. */
export interface Scenario extends Omit<ScenarioFile, 'costs'> {
  readonly costs: string | Exclude<ScenarioFile['costs'], string>;
}

/** @throws {SpecError} file missing, not YAML, or not of the schema: with line, key and both operands. */
export function readScenario(path: string): Scenario {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new SpecError({ file: path, line: null, key: '', problem: 'file cannot be read', expected: 'a readable file', actual: (error as NodeJS.ErrnoException).code }, { cause: error });
  }
  const { value } = AuthoringFile.parse(basename(path), text, ScenarioFile);
  const beside = (name: string): string => resolve(dirname(path), name);
  return { ...value, model: beside(value.model), costs: typeof value.costs === 'string' ? beside(value.costs) : value.costs };
}
