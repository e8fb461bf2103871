import { Command } from 'commander'
import { registerErase } from '../audit/erase-command.js'
import { registerExport } from '../audit/export-command.js'
import { registerHold } from '../audit/hold-command.js'
import { registerQuery } from '../audit/query-command.js'
import { registerRebuild } from '../audit/rebuild-command.js'
import { registerStats } from '../audit/stats-command.js'
import { registerTail } from '../audit/tail-command.js'

/** `passover audit query|stats|…`: each subcommand registers itself from a file of its own under ../audit. */
export function auditCommand(): Command {
  const command = new Command('audit').description(
    'find passes of any age, count and export them, hold them, erase them, make their records anew',
  )
  registerQuery(command)
  registerTail(command)
  registerStats(command)
  registerExport(command)
  registerRebuild(command)
  registerHold(command)
  registerErase(command)
  return command
}
