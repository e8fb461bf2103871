import { Command } from 'commander'
import { action } from '../../connection/context.js'
import { usage } from '../../errors.js'
import { nameOption } from '../../input/options.js'
import type { CancelAllRequest } from '../../passes/cancel-all.js'

interface CancelOptions {
  from?: string
  to?: string
  all?: true
  session?: string
  reason?: string
  dryRun?: true
  yes?: true
}

/** `passover cancel <id>`, `passover cancel --from <agent> --all` */
export function cancelCommand(): Command {
  return new Command('cancel')
    .description('cancel a pass, or all open passes of an agent, and all their descendants')
    .argument('[id]', 'pass id, or its first characters')
    .option('--from <agent>', 'originator; with an id, needed only if several passes have it', nameOption)
    .option('--to <agent>', 'subagent', nameOption)
    .option('--all', 'every open pass of the originator in --from')
    .option('--session <id>', 'every open pass of the originator in --from that belongs to this session')
    .option('--reason <text>', 'reason, stored in the audit trail')
    .option('--dry-run', 'show what would be cancelled without cancelling it')
    .option('--yes', 'do not ask for confirmation, even if several passes would end')
    .addHelpText(
      'after',
      `
With --all or --session, the command also cancels passes that are admitted while it runs, and waits until all have ended. Exit code 0: all have
ended; 1: some are still open, or you declined; 2: several passes would end, but no terminal can ask for confirmation and --yes is not set.

Examples:
  passover cancel 0abcdef1 --reason "no longer needed"
  passover cancel --from mallory --all --dry-run
  passover cancel --from alice --session nightly --yes`,
    )
    .action(
      action<CancelOptions, [string | undefined]>(async (context, options, id) => {
        const many = manyOf(options, id)
        const { connectPerson } = await import('../../connection/connect-person.js')
        if (many) {
          const { cancelAll } = await import('../../passes/cancel-all.js')
          await using bus = await connectPerson(context)
          return await cancelAll(bus, context, many)
        }
        const { cancelPass } = await import('../../passes/cancel.js')
        await using bus = await connectPerson(context)
        return await cancelPass(bus, context, { ...options, id: id as string })
      }),
    )
}

/** Returns the request to cancel several passes, or `undefined` if one pass is named by its id. */
function manyOf({ all, session, from, ...options }: CancelOptions, id: string | undefined): CancelAllRequest | undefined {
  const examples = 'passover cancel --help shows examples'
  const several = all || session !== undefined
  if (id !== undefined) {
    if (several) throw usage('an id cannot be combined with --all or --session', examples)
    return undefined
  }
  if (!several) throw usage('name the passes: an id, or --from <agent> with --all or --session', examples)
  if (all && session !== undefined) throw usage('--all and --session cannot be combined', examples)
  if (from === undefined) throw usage('--all and --session need the originator: --from <agent>', examples)
  return { ...options, from, session }
}
