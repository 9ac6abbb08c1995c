import { stat } from 'node:fs/promises';
import { findFaults } from '../engine/model/spec/find_faults.ts';
import { loadModelSpec } from '../engine/model/spec/load_model_spec.ts';
import { faultText } from '../engine/model/spec/spec_error.ts';
import { callArguments, onePositional } from './call_arguments.ts';
import type { Command } from './Command.ts';
import { CommandError, EXIT } from './CommandError.ts';

export const validate: Command = {
  usage: 'DIRECTORY',
  summary: `Checks a model directory without loading the model: each file against its schema, the files against each other and the manifest, weights and adapters against their checksums.

Each fault is a line: file, line, key, what is wrong, and both operands.

Exit codes: 0 it can be loaded, 1 it has faults, 2 called wrongly, 3 no such directory.`,
  run: async (args, output) => {
    const directory = onePositional(callArguments(args, {}).positionals, 'directory');
    const is = await stat(directory).catch(() => null);
    if (is?.isDirectory() !== true) throw new CommandError(EXIT.unusable, `${directory} is ${is === null ? 'not there' : 'no directory'}`);
    const faults = findFaults(directory);
    for (const fault of faults) output.line(faultText(fault));
    if (faults.length > 0) return EXIT.different;
    const { modelId, variantId, components, loops, programs, adapters, checkpoint } = loadModelSpec(directory, { verifyChecksums: false });
    const count = (things: object, one: string): string => `${Object.keys(things).length} ${one}${Object.keys(things).length === 1 ? '' : 's'}`;
    output.line(`${modelId} (${variantId}, ${checkpoint.weightsVersion}): ${[count(components, 'component'), count(loops, 'loop'), count(programs, 'program'), count(adapters, 'adapter')].join(', ')}`);
    return EXIT.ok;
  },
};
