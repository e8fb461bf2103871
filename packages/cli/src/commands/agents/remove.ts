import { Command } from 'commander'
import { action, type Context } from '../../connection/context.js'
import { CliFailure } from '../../errors.js'
import { confirmIfAsked } from '../../input/confirm.js'
import { nameOption } from '../../input/options.js'
import { count, formatCommands } from '../../terminal/text.js'

interface RemoveOptions {
  dryRun?: true
  yes?: true
}

/** `passover agents remove <name>` */
export function removeCommand(): Command {
  return new Command('remove')
    .description('remove an agent from the registry; later passes to it are refused')
    .argument('<name>', 'agent name', nameOption)
    .option('--dry-run', 'show what would be removed without removing it')
    .option('--yes', 'do not ask for confirmation, even if passes to it are open (they continue until they return or reach their deadline)')
    .addHelpText('after', '\nExample:\n  passover agents remove builder')
    .action(action<RemoveOptions, [string]>(remove))
}

async function remove(context: Context, options: RemoveOptions, name: string): Promise<number> {
  const { connectPerson } = await import('../../connection/connect-person.js')
  const { listOpenPassesTo, readAgent, removeAgent } = await import('../../agents/agent-store.js')
  const { readNameVerification, formatPerson } = await import('../../connection/verified-names.js')
  const { readPresence } = await import('@passover/operator')
  await using bus = await connectPerson(context)
  await readAgent(bus, name)
  const [{ passes, more }, presence] = await Promise.all([listOpenPassesTo(bus, name), readPresence(bus, name)])
  const open = `${more ? 'more than ' : ''}${count(passes.length, 'pass', 'passes')}`
  const up = presence.get(name)?.instances ?? 0
  if (options.dryRun) {
    const document = { name, dry_run: true, open: passes.length, workers: up }
    context.terminal.show(document, () => `Would remove ${name}; ${open} to it open, ${count(up, 'worker')} up.`)
    return 0
  }
  if (passes.length > 0 && !options.yes && !(await confirmIfAsked(context.terminal, `Remove ${name}, with ${open} to it open?`))) {
    throw new CliFailure('E031', `${open} to ${name} open: the agent was not removed`, {
      hint: `passover list --to ${name} lists them; --yes removes the agent anyway`,
    })
  }
  await removeAgent(bus, name)
  const names = await readNameVerification(bus, context)
  context.terminal.show({ name, removed: true, by: bus.identity, ...names, open: passes.length, workers: up }, () =>
    [
      `Removed ${name} as ${formatPerson(bus.identity, names)}.${passes.length > 0 ? ` ${open} to it still open.` : ''}`,
      ...stillUp(name, up),
    ].join('\n'),
  )
  return 0
}

/** Warns about workers that are still running. They cannot be stopped from here, and one that restarts may register the agent again. */
function stillUp(name: string, up: number): string[] {
  if (up === 0) return []
  const workers = `${count(up, 'worker')} of it ${up === 1 ? 'is' : 'are'} still running and will get no passes`
  return [
    `  ${workers}: stop ${up === 1 ? 'it' : 'them'} (a worker that restarts registers ${name} again if registration is open),`,
    formatCommands(`  or register it again: passover agents add ${name}`),
  ]
}
