import { Command } from 'commander'
import { action, type Context } from '../../connection/context.js'
import { usage } from '../../errors.js'
import { formatCommands } from '../../terminal/text.js'
import { addCommand, setCommand } from './change.js'
import { promptCommand } from './prompt.js'
import { removeCommand } from './remove.js'
import { showAgentCommand } from './show.js'

/** `passover agents [add|set|show|remove|prompt]` */
export function agentsCommand(): Command {
  return new Command('agents')
    .description('list registered agents, their workers and queued passes')
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
        throw usage(`agents has no subcommand ${surplus}`, '`passover agents` lists agents, `passover agents add <name>` registers one')
      await action<object, []>(list)(...given)
    })
}

async function list(context: Context): Promise<number> {
  const { connectPerson } = await import('../../connection/connect-person.js')
  const { readAgents } = await import('@passover/operator')
  const { renderAgents } = await import('../../agents/render-list.js')
  const { revokedAgents } = await import('../../auth/find-keys.js')
  const { readNameVerification } = await import('../../connection/verified-names.js')
  await using bus = await connectPerson(context)
  const [lines, names] = await Promise.all([readAgents(bus), readNameVerification(bus, context)])
  const revoked = revokedAgents(context.server())
  const agents = lines.map((line) => ({ ...line, ...names, ...(revoked.has(line.name) && { revoked_at: revoked.get(line.name) }) }))
  context.terminal.show(agents, () =>
    agents.length === 0
      ? formatCommands('No agents. Start one: passover work <name> -- <command>')
      : renderAgents(agents, context.terminal),
  )
  return 0
}
