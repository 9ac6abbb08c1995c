/** `segue validate` and `segue schemas`, as processes of their own. */
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { segue } from './segue.ts';

const MODEL = new URL('../../models/drive', import.meta.url).pathname;
const SCHEMAS = new URL('../../models/schemas', import.meta.url).pathname;
const scratch: string[] = [];
after(() => scratch.forEach((dir) => rmSync(dir, { recursive: true })));

function temporary(): string {
  const dir = mkdtempSync(join(tmpdir(), 'segue-validate-'));
  scratch.push(dir);
  return dir;
}

function copyOfModel(edits: Readonly<Record<string, (text: string) => string>>): string {
  const dir = temporary();
  for (const name of readdirSync(MODEL)) {
    if (/\.(yaml|json)$/.test(name)) cpSync(join(MODEL, name), join(dir, name));
    else symlinkSync(join(MODEL, name), join(dir, name));
  }
  for (const [name, change] of Object.entries(edits)) {
    const text = readFileSync(join(dir, name), 'utf8');
    assert.notEqual(change(text), text, `the edit of ${name} changes something`);
    writeFileSync(join(dir, name), change(text));
  }
  return dir;
}

const lineOf = (dir: string, name: string, text: string): number => readFileSync(join(dir, name), 'utf8').split('\n').findIndex((line) => line.includes(text)) + 1;

describe('segue validate', () => {
  it('says what a model that can be loaded is made of', async () => {
    const { code, out } = await segue('validate', MODEL);
    assert.equal(code, 0, out);
    assert.match(out, /^drive \(drive-fp32, drive-[^)]+\): \d+ components, \d+ loops, \d+ programs, 2 adapters\n$/);
  });

  it('names every fault of every file by itself, with line, key and both operands', async () => {
    const dir = copyOfModel({
      'deployment.yaml': (text) => text.replace(/^devices: .*/m, 'devices: many').concat('colour: blue\n'),
      'parallel.yaml': (text) => text.replace('meshOrder: [replica]', 'meshOrder: [sideways]'),
    });
    const { code, out } = await segue('validate', dir);
    assert.equal(code, 1);
    const lines = out.trim().split('\n');
    assert.ok(lines.some((line) => line.startsWith(`deployment.yaml:${lineOf(dir, 'deployment.yaml', 'devices: many')}: devices:`) && line.endsWith('got many')), out);
    assert.ok(lines.some((line) => line.startsWith(`deployment.yaml:${lineOf(dir, 'deployment.yaml', 'colour')}: colour: unknown key`)), out);
    assert.ok(lines.some((line) => line.startsWith(`parallel.yaml:${lineOf(dir, 'parallel.yaml', 'sideways')}: plans.replicated.meshOrder.0:`) && line.endsWith('got sideways')), out);
  });

  it('names faults between files that hide none of each other', async () => {
    const dir = copyOfModel({
      'deployment.yaml': (text) => text.replace(/^programs: .*/m, 'programs: [fly]'),
      'programs.yaml': (text) => text.replace('start: start_bank', 'start: start_tank'),
    });
    const { code, out } = await segue('validate', dir);
    assert.equal(code, 1);
    assert.match(out, new RegExp(`^programs.yaml:${lineOf(dir, 'programs.yaml', 'start_tank')}: programs\\.drive\\.loops\\.start: unknown loop: expected \\[.*\\], got start_tank$`, 'm'));
    assert.match(out, new RegExp(`^deployment.yaml:${lineOf(dir, 'deployment.yaml', '[fly]')}: programs\\.0: unknown program: expected \\[.*\\], got fly$`, 'm'));
  });

  it('names a weights file that was altered', async () => {
    const dir = copyOfModel({ 'manifest.json': (text) => text.replace(/("sha256": ")[0-9a-f]{8}/, '$100000000') });
    const { code, out } = await segue('validate', dir);
    assert.equal(code, 1);
    assert.match(out, /^manifest\.json:\d+: files\..*\.sha256: checksum of /);
  });

  it('a call without a directory, with two, or with one that is not there', async () => {
    for (const [args, code, says] of [[[], 2, 'which directory?'], [['a', 'b'], 2, 'one directory at a time, got a b'], [['/nowhere'], 3, 'is not there'], [[MODEL, '--fast'], 2, '--fast']] as const) {
      const result = await segue('validate', ...args);
      assert.equal(result.code, code, args.join(' '));
      assert.ok(result.err.includes(says), result.err);
    }
  });
});

describe('segue schemas', () => {
  it('the schemas beside the models are those of the code, and each authoring file names its own', async () => {
    const dir = temporary();
    assert.equal((await segue('schemas', dir)).code, 0);
    assert.deepEqual(readdirSync(dir).sort(), readdirSync(SCHEMAS).sort());
    for (const name of readdirSync(dir)) {
      assert.equal(readFileSync(join(dir, name), 'utf8'), readFileSync(join(SCHEMAS, name), 'utf8'), `${name}: node src/cli/segue.ts schemas models/schemas`);
      assert.match(readFileSync(join(MODEL, name.replace('.schema.json', '.yaml')), 'utf8'), new RegExp(`^# yaml-language-server: \\$schema=\\.\\./schemas/${name}\n`));
    }
  });
});

it('a command that there is not is a call that went wrong', async () => {
  const { code, err } = await segue('dance');
  assert.equal(code, 2);
  assert.match(err, /no command dance[\s\S]*segue validate/);
});
