import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { MODEL_DIR } from '../ExecutorBench.ts';

export interface TestTensor {
  readonly shape: readonly number[];
  readonly values: readonly number[] | Float32Array;
}

export const BASE = (JSON.parse(readFileSync(join(MODEL_DIR, 'manifest.json'), 'utf8')) as { adapter_compatibility: { base: string } }).adapter_compatibility.base;

/** A safetensors file of float32 tensors. */
export function safetensorsFile(tensors: Readonly<Record<string, TestTensor>>, metadata: Readonly<Record<string, string>> = {}): Buffer {
  let at = 0;
  const header: Record<string, unknown> = { __metadata__: metadata };
  const parts: Buffer[] = [];
  for (const [key, { shape, values }] of Object.entries(tensors)) {
    const bytes = Buffer.from(Float32Array.from(values).buffer);
    header[key] = { dtype: 'F32', shape, data_offsets: [at, at + bytes.length] };
    parts.push(bytes);
    at += bytes.length;
  }
  return framed(JSON.stringify(header), Buffer.concat(parts));
}

/** Length, header, bytes. */
export function framed(header: string, data: Buffer = Buffer.alloc(0)): Buffer {
  const text = Buffer.from(header);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, data]);
}

export function metadataOf(id: string, rank: number, alpha = rank): Record<string, string> {
  return { id, title: id, rank: String(rank), alpha: String(alpha), base: BASE };
}

/** Updates of every layer, small and of no use but to be told apart. */
export function seededTensors(seed: number, rank: number, layers: readonly number[] = [0, 1, 2, 3, 4, 5]): Record<string, TestTensor> {
  let state = seed * 2654435761 + 1;
  // A linear congruential generator: the same numbers on every machine.
  const next = (): number => ((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32) * 2 - 1;
  const tensor = (shape: readonly [number, number], size: number): TestTensor => ({ shape, values: Array.from({ length: shape[0] * shape[1] }, () => next() * size) });
  const tensors: Record<string, TestTensor> = {};
  for (const layer of layers) {
    for (const [matrix, columns] of [['attention_output', 192], ['feedforward_out', 576]] as const) {
      tensors[`picture_experts.${layer}.${matrix}.lora_A`] = tensor([rank, columns], columns ** -0.5);
      tensors[`picture_experts.${layer}.${matrix}.lora_B`] = tensor([192, rank], 0.1);
    }
  }
  return tensors;
}

/** A copy of the model directory with these adapters and no others; its weights are the real ones, by link. */
export function modelWith(adapters: Readonly<Record<string, Buffer>>, change: (files: { model: Record<string, unknown>; manifest: Record<string, unknown> }) => void = () => undefined): string {
  const dir = mkdtempSync(join(tmpdir(), 'segue-adapters-'));
  for (const name of readdirSync(MODEL_DIR)) if (/\.(yaml|json)$/.test(name)) cpSync(join(MODEL_DIR, name), join(dir, name));
  symlinkSync(join(MODEL_DIR, 'weights'), join(dir, 'weights'));
  mkdirSync(join(dir, 'adapters'));
  const model = parse(readFileSync(join(MODEL_DIR, 'model.yaml'), 'utf8'), { maxAliasCount: -1 }) as Record<string, unknown>;
  const manifest = JSON.parse(readFileSync(join(MODEL_DIR, 'manifest.json'), 'utf8')) as { files: Record<string, unknown> };
  const files: Record<string, unknown> = Object.fromEntries(Object.entries(manifest.files).filter(([name]) => !name.startsWith('adapters/')));
  const declared: Record<string, unknown> = {};
  for (const [id, bytes] of Object.entries(adapters)) {
    const file = `adapters/${id}.safetensors`;
    writeFileSync(join(dir, file), bytes);
    files[file] = { sha256: createHash('sha256').update(bytes).digest('hex'), bytes: bytes.length };
    declared[id] = { title: id.toUpperCase(), file, kind: 'lora' };
  }
  const authored = { model: { ...model, adapters: declared } as Record<string, unknown>, manifest: { ...manifest, files } as Record<string, unknown> };
  change(authored);
  // JSON is YAML.
  writeFileSync(join(dir, 'model.yaml'), JSON.stringify(authored.model, null, 1));
  writeFileSync(join(dir, 'manifest.json'), JSON.stringify(authored.manifest, null, 1));
  return dir;
}
