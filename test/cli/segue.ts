import { spawn } from 'node:child_process';

const COMMAND = new URL('../../src/cli/segue.ts', import.meta.url).pathname;

export interface Done {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** The command line as a process of its own. */
export async function segue(...args: readonly string[]): Promise<Done> {
  const child = spawn(process.execPath, [COMMAND, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  let [out, err] = ['', ''];
  child.stdout.on('data', (data: Buffer) => (out += String(data)));
  child.stderr.on('data', (data: Buffer) => (err += String(data)));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, out, err };
}
