import { Command } from 'commander'
import { action, type Context } from '../context.js'
import { usage } from '../failure.js'
import { addCommand, setCommand } from './agents-change.js'
import { promptCommand } from './agents-prompt.js'
import { removeCommand } from './agents-remove.js'
import { showAgentCommand } from './agents-show.js'

/** `passover agents [add|set|show|remove|prompt]` */
export function agentsCommand(): Command {
  return new Command('agents')
    .description('show the registered agents and what waits for them')
    .addCommand(addCommand())
    .addCommand(setCommand())
    .addCommand(showAgentCommand())
    .addCommand(removeCommand())
    .addCommand(promptCommand())
    .addHelpText('after', '\nExamples:\n  passover agents\n  passover agents add alice --originates always --no-subagent')
    .allowExcessArguments()
    .action(async (...given) => {
      const [surplus] = (given.at(-1) as Command).args
      if (surplus !== undefined)
        throw usage(`agents has no subcommand ${surplus}`, '`passover agents` lists them, `passover agents add <name>` registers one')
      await action<object, []>(list)(...given)
    })
}

async function list(context: Context): Promise<number> {
  const { connectPerson } = await import('../client.js')
  const { readAgents } = await import('@passover/sdk/people')
  const { renderAgents } = await import('../agents.js')
  await using bus = await connectPerson(context)
  const agents = await readAgents(bus)
  context.terminal.show(agents, () =>
    agents.length === 0 ? 'No agents. Start one: passover work <name> -- <command>' : renderAgents(agents, context.terminal),
  )
  return 0
}
