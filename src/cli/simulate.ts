import { SpecError } from '../engine/model/spec/spec_error.ts';
import { readScenario } from '../simulation/scenario.ts';
import { simulate as run } from '../simulation/simulate.ts';
import { simulationText } from '../simulation/simulation_text.ts';
import { callArguments, onePositional } from './call_arguments.ts';
import type { Command } from './Command.ts';
import { CommandError, EXIT } from './CommandError.ts';

export const simulate: Command = {
  usage: 'SCENARIO.yaml [--json]',
  summary: `Runs a scenario on a virtual clock: the scheduler, admission and programs that serve, devices that only take time, people who come, steer, type, interrupt and leave.

Tells who was let in, which frames missed their deadline, how long redirects and actions took, how busy the devices were, and how evenly it was shared. See examples/scenarios.

  --json  the report as one JSON line; the same scenario gives the same line on every machine

Exit codes: 0 it ran, 1 something failed in it, 2 called wrongly, 3 no scenario, no model, no costs.`,
  run: async (args, output) => {
    const { values, positionals } = callArguments(args, { json: { type: 'boolean' } });
    const path = onePositional(positionals, 'scenario');
    try {
      const report = await run(readScenario(path));
      output.line(values.json === true ? JSON.stringify(report) : simulationText(report));
      return Object.keys(report.failures).length === 0 ? EXIT.ok : EXIT.different;
    } catch (error) {
      if (error instanceof SpecError) throw new CommandError(EXIT.unusable, error.message);
      throw error;
    }
  },
};
