import { Command, Option } from 'commander'
import { action, type Context } from '../context.js'
import { usage } from '../failure.js'
import { nameOption } from '../options.js'
import { promptCommand } from './agents-prompt.js'

interface AddOptions {
  originates?: 'always' | 'within_a_pass' | 'never'
  subagent: boolean
  description?: string
}

/** `passover agents [add]` */
export function agentsCommand(): Command {
  return new Command('agents')
    .description('show the registered agents and what waits for them')
    .addCommand(addCommand())
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

function addCommand(): Command {
  return new Command('add')
    .description('register an agent, or change its roles')
    .argument('<name>', 'the agent', nameOption)
    .addOption(
      new Option('--originates <when>', 'whether it may pass over by itself (default: within_a_pass for a subagent, else always)').choices([
        'always',
        'within_a_pass',
        'never',
      ]),
    )
    .option('--no-subagent', 'passes may not go to it')
    .option('--description <text>', 'what it is for')
    .action(action<AddOptions, [string]>(add))
}

async function list(context: Context): Promise<number> {
  const { connectPerson } = await import('../client.js')
  const { readAgents, renderAgents } = await import('../agents.js')
  await using bus = await connectPerson(context)
  const agents = await readAgents(bus)
  context.terminal.show(agents, () =>
    agents.length === 0 ? 'No agents. Start one: passover work <name> -- <command>' : renderAgents(agents, context.terminal),
  )
  return 0
}

async function add(context: Context, options: AddOptions, name: string): Promise<number> {
  const { connectPerson } = await import('../client.js')
  const { addAgent } = await import('../agents.js')
  await using bus = await connectPerson(context)
  const originates = options.originates ?? (options.subagent ? 'within_a_pass' : 'always')
  const { record, changed } = await addAgent(bus, { name, originates, subagent: options.subagent, description: options.description })
  const receives = record.roles.subagent ? 'receives passes' : 'receives no passes'
  context.terminal.show(
    record,
    () => `${changed ? 'Changed' : 'Registered'} ${name}: ${receives}, originates ${originates.replaceAll('_', ' ')}.`,
  )
  return 0
}
