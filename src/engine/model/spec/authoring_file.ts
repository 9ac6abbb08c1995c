import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Static, TSchema } from 'typebox';
import { Value } from 'typebox/value';
import { isNode, LineCounter, parseDocument, type Document } from 'yaml';
import { SpecError } from './spec_error.ts';

export type KeyPath = readonly (string | number)[];

/**
 * One authored file (YAML, or JSON, which is YAML): its validated value, and where each of its keys stands,
 * so that a fault found later, across files, can still name the line.
 */
export class AuthoringFile<T> {
  readonly name: string;
  readonly value: T;
  readonly #document: Document;
  readonly #lines: LineCounter;

  private constructor(name: string, value: T, document: Document, lines: LineCounter) {
    this.name = name;
    this.value = value;
    this.#document = document;
    this.#lines = lines;
  }

  /** @throws {SpecError} file missing, not YAML, or not of the schema. */
  static read<S extends TSchema>(modelDir: string, name: string, schema: S): AuthoringFile<Static<S>> {
    let text: string;
    try {
      text = readFileSync(join(modelDir, name), 'utf8');
    } catch (error) {
      throw new SpecError({ file: name, line: null, key: '', problem: 'file cannot be read', expected: 'a readable file', actual: (error as NodeJS.ErrnoException).code ?? String(error) }, { cause: error });
    }
    return AuthoringFile.parse(name, text, schema);
  }

  static parse<S extends TSchema>(name: string, text: string, schema: S): AuthoringFile<Static<S>> {
    const lines = new LineCounter();
    const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true });
    const syntax = document.errors[0];
    if (syntax !== undefined) {
      throw new SpecError({ file: name, line: syntax.linePos?.[0].line ?? null, key: '', problem: 'not well-formed', expected: 'YAML', actual: syntax.message.split('\n')[0] }, { cause: syntax });
    }
    const value: unknown = document.toJS();
    const file = new AuthoringFile(name, value as Static<S>, document, lines);
    const errors = Value.Errors(schema, value).map((error) => file.#schemaError(error, value));
    if (errors[0] !== undefined) throw new SpecError(errors[0].fault, { faults: errors.map(({ fault }) => fault) });
    return deepFreeze(file);
  }

  #schemaError(error: ReturnType<typeof Value.Errors>[number], value: unknown): SpecError {
    const path = pathOf(error.instancePath);
    const extra = error.keyword === 'additionalProperties' ? error.params.additionalProperties[0] : undefined;
    const missing = error.keyword === 'required' ? error.params.requiredProperties[0] : undefined;
    if (extra !== undefined) return this.fault([...path, extra], 'unknown key', 'a key of the schema', extra);
    if (missing !== undefined) return this.fault([...path, missing], 'missing key', missing, 'nothing');
    // A key that `additionalProperties: false` forbids is reported under the schema `false`, at the key itself.
    if (error.keyword === 'boolean') return this.fault(path, 'unknown key', 'a key of the schema', path.at(-1));
    const choices = error.keyword === 'enum' ? error.params.allowedValues : error.params;
    return this.fault(path, error.message, choices, at(value, path));
  }

  fault(path: KeyPath, problem: string, expected: unknown, actual: unknown): SpecError {
    return new SpecError({ file: this.name, line: this.lineOf(path), key: path.join('.'), problem, expected, actual });
  }

  /** Line of a key, or of its nearest ancestor that exists. */
  lineOf(path: KeyPath): number | null {
    for (let length = path.length; length >= 0; length--) {
      const node = length === 0 ? this.#document.contents : this.#document.getIn(path.slice(0, length), true);
      if (isNode(node) && node.range) return this.#lines.linePos(node.range[0]).line;
    }
    return null;
  }
}

/** Specs are values: nobody changes one after it has been checked. */
export function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value) && !ArrayBuffer.isView(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}

function pathOf(pointer: string): KeyPath {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
}

function at(value: unknown, path: KeyPath): unknown {
  return path.reduce<unknown>((inner, key) => (typeof inner === 'object' && inner !== null ? (inner as Record<string | number, unknown>)[key] : undefined), value);
}
