import { Command } from 'commander'
import { action } from '../../connection/context.js'

interface CancelOptions {
  from?: string
  to?: string
  reason?: string
  dryRun?: true
  yes?: true
}

/** `passover cancel <id>` */
export function cancelCommand(): Command {
  return new Command('cancel')
    .description('end a pass, and every pass below it')
    .argument('<id>', 'the pass, or the beginning of its id')
    .option('--from <agent>', 'of this originator, where several passes share the id')
    .option('--to <agent>', 'of this subagent')
    .option('--reason <text>', 'why; it stands in the audit trail')
    .option('--dry-run', 'say what would be ended, and end nothing')
    .option('--yes', 'do not ask where passes below would end too')
    .addHelpText('after', '\nExample:\n  passover cancel 0abcdef1 --reason "no longer needed"')
    .action(
      action<CancelOptions, [string]>(async (context, options, id) => {
        const { connectPerson } = await import('../../connection/connect-person.js')
        const { cancelPass } = await import('../../passes/cancel.js')
        await using bus = await connectPerson(context)
        return await cancelPass(bus, context, { ...options, id })
      }),
    )
}
