import { fileURLToPath } from 'node:url';
import { build } from 'vite';

let bundled: Promise<string> | null = null;

/** The page's script as one immediately invoked function; built once per process. */
export function pageScript(): Promise<string> {
  return (bundled ??= bundle(fileURLToPath(new URL('./page/main.ts', import.meta.url))));
}

/** Bundles a TypeScript entry and what it imports into one classic script. */
export async function bundle(entry: string): Promise<string> {
  const output = await build({
    configFile: false,
    logLevel: 'warn',
    build: { write: false, minify: false, target: 'es2024', lib: { entry, formats: ['iife'], name: '__bundle' } },
  });
  const [first] = Array.isArray(output) ? output : [output];
  if (first === undefined || !('output' in first)) throw new Error(`${entry} gave no bundle`);
  return first.output[0].code;
}
