import { Command } from 'commander'
import { registerErase } from './erase.js'
import { registerExport } from './export.js'
import { registerHold } from './hold.js'
import { registerQuery } from './query.js'
import { registerRebuild } from './rebuild.js'
import { registerStats } from './stats.js'
import { registerTail } from './tail.js'

/** `passover audit query|stats|…`: registers each subcommand from its own file. */
export function auditCommand(): Command {
  const command = new Command('audit').description('search, count, export, hold and erase passes of any age, and rebuild their records')
  registerQuery(command)
  registerTail(command)
  registerStats(command)
  registerExport(command)
  registerRebuild(command)
  registerHold(command)
  registerErase(command)
  return command
}
