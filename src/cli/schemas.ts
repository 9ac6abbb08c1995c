import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AUTHORING_SCHEMAS } from '../engine/model/spec/authored_model.ts';
import { callArguments, onePositional } from './call_arguments.ts';
import type { Command } from './Command.ts';
import { EXIT } from './CommandError.ts';

export const schemas: Command = {
  usage: 'DIRECTORY',
  summary: `Writes the JSON Schemas of the authoring files (model, loops, parallel, programs, deployment) there, for editors: completion, and faults while typing.

A file names its schema in its first line: # yaml-language-server: $schema=…/model.schema.json

Exit codes: 0 written, 2 called wrongly.`,
  run: async (args, output) => {
    const directory = onePositional(callArguments(args, {}).positionals, 'directory');
    await mkdir(directory, { recursive: true });
    for (const [name, schema] of Object.entries(AUTHORING_SCHEMAS)) {
      const file = join(directory, name.replace('.yaml', '.schema.json'));
      await writeFile(file, `${JSON.stringify({ $schema: 'https://json-schema.org/draft/2020-12/schema', title: name, ...schema }, null, 2)}\n`);
      output.line(file);
    }
    return EXIT.ok;
  },
};
