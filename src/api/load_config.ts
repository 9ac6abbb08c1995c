import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { Compile } from 'typebox/compile';
import type { TSchema } from 'typebox';
import { parseDocument } from 'yaml';
import { schemaFault } from '../protocol/schema_fault.ts';
import { Config, DEFAULT_CONFIG, SECRET_KEYS } from './config_schema.ts';

/** Says which file or variable, which key, and what was expected. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  /** File or environment variable. */
  readonly source: string;
  /** Path of the key, empty for the whole file. */
  readonly key: string;

  constructor(source: string, key: string, message: string) {
    super(`${source}: ${message}`);
    this.source = source;
    this.key = key;
  }
}

export interface LoadedConfig {
  readonly config: Config;
  /** The file that was read, or null where there was none. */
  readonly file: string | null;
  /** Variables that look like configuration and are not. */
  readonly warnings: readonly string[];
}

type Plain = { [key: string]: unknown };

const validator = Compile(Config as TSchema);
/** Variables with the prefix that belong to others: where the file is, and the test commands' own. */
const OTHER_VARIABLES = new Set(['SEGUE_CONFIG', 'SEGUE_SOAK', 'SEGUE_SOAK_INTERRUPTS', 'SEGUE_SOAK_KILLS', 'SEGUE_SOAK_REJOINS']);

/**
 * Defaults, then `segue.config.yaml` in `directory` (or what `SEGUE_CONFIG` names), then `SEGUE_…` variables. Throws {@link ConfigError}.
 */
export function loadConfig({ directory, env }: { readonly directory: string; readonly env: Readonly<Record<string, string | undefined>> }): LoadedConfig {
  const named = env['SEGUE_CONFIG'];
  const path = named ?? join(directory, 'segue.config.yaml');
  if (named !== undefined && !existsSync(named)) throw new ConfigError('SEGUE_CONFIG', '', `no file ${named}`);
  const file = existsSync(path) ? path : null;
  // The usual file by its name; one that was named, as it was named.
  const source = file === null ? 'defaults' : (named ?? basename(file));
  const config = structuredClone(DEFAULT_CONFIG) as unknown as Plain;
  if (file !== null) merge(config, readYaml(file, source), source);
  check(config, source);

  const warnings: string[] = [];
  const variables = environmentVariables();
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith('SEGUE_') || OTHER_VARIABLES.has(name) || text === undefined) continue;
    const variable = variables.get(name);
    if (!variable) {
      warnings.push(`${name} is not a configuration key`);
      continue;
    }
    assign(config, variable.path, parseValue(variable.schema, text));
    check(config, name);
  }
  const { minPort, maxPort } = (config as unknown as Config).ice;
  if (minPort > maxPort) throw new ConfigError(source, 'ice.minPort', `ice.minPort (${minPort}) must not be above ice.maxPort (${maxPort})`);
  refuseBaselines(config as unknown as Config, source);
  return { config: config as unknown as Config, file, warnings };
}

/** A server that fences late or not at all is for measuring against, never for serving. */
function refuseBaselines({ engine, media, test }: Config, source: string): void {
  if (test.enabled) return;
  if (engine.policy !== 'unit') throw new ConfigError(source, 'engine.policy', `engine.policy ${engine.policy} is a benchmark's baseline and needs test.enabled`);
  if (media.fence !== 'word') throw new ConfigError(source, 'media.fence', `media.fence ${media.fence} is a benchmark's baseline and needs test.enabled`);
}

/** The configuration with every secret replaced, for printing. */
export function redactConfig(config: Config): unknown {
  return redact(config, '');
}

/** Environment variable of every key. */
export function environmentVariables(): ReadonlyMap<string, { readonly path: readonly string[]; readonly schema: TSchema }> {
  const variables = new Map<string, { path: readonly string[]; schema: TSchema }>();
  const visit = (schema: TSchema, path: readonly string[]): void => {
    const properties = (schema as { readonly properties?: Readonly<Record<string, TSchema>> }).properties;
    if (properties) for (const [key, child] of Object.entries(properties)) visit(child, [...path, key]);
    else variables.set(`SEGUE_${path.map((part) => part.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()).join('_')}`, { path, schema });
  };
  visit(Config, []);
  return variables;
}

function readYaml(file: string, source: string): Plain {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new ConfigError(source, '', `${file} can't be read (${(error as NodeJS.ErrnoException).code ?? String(error)})`);
  }
  const document = parseDocument(text, { prettyErrors: true });
  const [error] = document.errors;
  if (error) throw new ConfigError(source, '', `line ${error.linePos?.[0].line ?? 1}: ${error.message.split('\n')[0]}`);
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 16 });
  } catch (error) {
    throw new ConfigError(source, '', error instanceof Error ? error.message : String(error));
  }
  if (value === null || value === undefined) return {};
  if (!isPlain(value)) throw new ConfigError(source, '', 'expected keys and values');
  return value;
}

function merge(into: Plain, from: Plain, source: string, path: readonly string[] = []): void {
  for (const [key, value] of Object.entries(from)) {
    const existing = Object.hasOwn(into, key) ? into[key] : undefined;
    const at = [...path, key].join('.');
    if (isPlain(existing)) {
      if (value === null) continue;
      if (!isPlain(value)) throw new ConfigError(source, at, `${at} must be a section with keys, got ${describe(value)}`);
      merge(existing, value, source, [...path, key]);
    } else Object.defineProperty(into, key, { value, enumerable: true, writable: true, configurable: true });
  }
}

function assign(config: Plain, path: readonly string[], value: unknown): void {
  let section = config;
  for (const key of path.slice(0, -1)) section = section[key] as Plain;
  section[path.at(-1)!] = value;
}

/** What the schema expects decides how the text is read; what can't be read stays text, and is refused by the schema. */
function parseValue(schema: TSchema, text: string): unknown {
  const type = (schema as { readonly type?: unknown }).type;
  if (type === 'integer' || type === 'number') return text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : text;
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text;
  if (type === 'array') {
    if (text.trim().startsWith('[')) {
      try {
        return JSON.parse(text) as unknown;
      } catch {
        return text;
      }
    }
    return text.split(',').map((part) => part.trim()).filter((part) => part !== '');
  }
  return text;
}

function check(config: Plain, source: string): void {
  if (validator.Check(config)) return;
  const { param, message } = schemaFault(validator.Errors(config));
  const value = param.split('.').reduce<unknown>((at, key) => (typeof at === 'object' && at !== null && Object.hasOwn(at, key) ? (at as Plain)[key] : undefined), config);
  const secret = [...SECRET_KEYS].some((key) => param === key || param.startsWith(`${key}.`) || param.replace(/\.\d+/g, '') === key);
  const got = message.endsWith('is not known here') ? '' : `, got ${secret ? 'a secret that is not' : describe(value)}`;
  throw new ConfigError(source, param, `${message}${got}`);
}

function redact(value: unknown, path: string): unknown {
  if (SECRET_KEYS.has(path)) return Array.isArray(value) ? value.map(() => '[secret]') : value === '' ? '' : '[secret]';
  if (Array.isArray(value)) return value.map((item) => redact(item, path));
  if (!isPlain(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, redact(child, path === '' ? key : `${path}.${key}`)]));
}

function isPlain(value: unknown): value is Plain {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function describe(value: unknown): string {
  return JSON.stringify(value) ?? 'nothing';
}
