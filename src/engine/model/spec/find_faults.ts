import { resolve } from 'node:path';
import { AuthoringFile } from './authoring_file.ts';
import { AUTHORING_SCHEMAS, readAuthoredModel } from './authored_model.ts';
import { checkFiles } from './check_files.ts';
import { CROSS_CHECKS } from './cross_check.ts';
import { loadAdapters } from './load_model_spec.ts';
import { SpecError, type SpecFault } from './spec_error.ts';

/**
 * Everything that keeps a model directory from being loaded, as far as one fault doesn't hide another: all that is wrong with each file by itself; where
 * nothing is, the first fault of each check across files; where those hold, the first file or adapter that isn't what the manifest says.
 */
export function findFaults(modelDir: string): readonly SpecFault[] {
  const dir = resolve(modelDir);
  const alone = faultsOf(Object.entries(AUTHORING_SCHEMAS).map(([name, schema]) => () => void AuthoringFile.read(dir, name, schema)));
  if (alone.length > 0) return alone;
  let faults = faultsOf([() => void readAuthoredModel(dir)]);
  if (faults.length > 0) return faults;
  const authored = readAuthoredModel(dir);
  faults = faultsOf(CROSS_CHECKS.map((check) => () => check(authored)));
  if (faults.length > 0) return faults;
  faults = faultsOf([() => checkFiles(dir, authored, true)]);
  return faults.length > 0 ? faults : faultsOf([() => void loadAdapters(dir, authored)]);
}

/** A check that stumbles over what an earlier one has found fault with says nothing. */
function faultsOf(checks: readonly (() => void)[]): readonly SpecFault[] {
  const faults: SpecFault[] = [];
  for (const check of checks) {
    try {
      check();
    } catch (error) {
      if (error instanceof SpecError) faults.push(...error.faults);
      else if (faults.length === 0) throw error;
    }
  }
  return faults;
}
