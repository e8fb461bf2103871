import { Command } from 'commander'
import { action, type Context } from '../context.js'
import { nameOption } from '../options.js'

/** `passover agents show <name>` */
export function showAgentCommand(): Command {
  return new Command('show')
    .description('show one agent: its roles, defaults, and who works as it')
    .argument('<name>', 'the agent', nameOption)
    .addHelpText('after', '\nExample:\n  passover agents show builder --json > builder.json')
    .action(action<object, [string]>(show))
}

async function show(context: Context, _options: object, name: string): Promise<number> {
  const { connectPerson } = await import('../client.js')
  const { readAgent } = await import('../agents-write.js')
  const { readPresence } = await import('@passover/sdk/people')
  const { namesOn } = await import('../output/names.js')
  const { renderAgent } = await import('../render/agent.js')
  await using bus = await connectPerson(context)
  const [record, presence, load, names] = await Promise.all([
    readAgent(bus, name),
    readPresence(bus, name),
    bus.workload(name),
    namesOn(bus, context),
  ])
  const { instances: up = 0, running: busy = 0, places = 0 } = presence.get(name) ?? {}
  const workers = { up, busy, places, queued: load.reduce((sum, { queued }) => sum + queued, 0) }
  context.terminal.show({ ...record, ...names, workers }, () => renderAgent({ ...record, ...names }, workers, context.terminal))
  return 0
}
