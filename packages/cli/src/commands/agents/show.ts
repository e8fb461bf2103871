import { Command } from 'commander'
import { action, type Context } from '../../connection/context.js'
import { nameOption } from '../../input/options.js'

/** `passover agents show <name>` */
export function showAgentCommand(): Command {
  return new Command('show')
    .description('show one agent: roles, defaults and workers')
    .argument('<name>', 'agent name', nameOption)
    .addHelpText('after', '\nExample:\n  passover agents show builder --json > builder.json')
    .action(action<object, [string]>(show))
}

async function show(context: Context, _options: object, name: string): Promise<number> {
  const { connectPerson } = await import('../../connection/connect-person.js')
  const { readAgent } = await import('../../agents/agent-store.js')
  const { askAgents, openQueued, readPresence, totalLoad } = await import('@passover/operator')
  const { revokedAgents } = await import('../../auth/find-keys.js')
  const { readNameVerification } = await import('../../connection/verified-names.js')
  const { renderAgent } = await import('../../agents/render-agent.js')
  await using bus = await connectPerson(context)
  const [record, presence, load, rows, names] = await Promise.all([
    readAgent(bus, name),
    readPresence(bus, name),
    totalLoad(bus, name),
    askAgents(bus),
    readNameVerification(bus, context),
  ])
  const { instances: up = 0, running: busy = 0, places = 0 } = presence.get(name) ?? {}
  const open = rows.find(({ agent }) => agent.name === name)?.open ?? 0
  const workers = { up, busy, places, queued: openQueued(load, open) }
  const revoked_at = revokedAgents(context.server()).get(name)
  const shown = { ...record, ...names, ...(revoked_at === undefined ? {} : { revoked_at }) }
  context.terminal.show({ ...shown, workers }, () => renderAgent(shown, workers, context.terminal))
  return 0
}
