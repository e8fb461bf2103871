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
    .description('end a pass, or all open passes of an agent, and every pass below')
    .argument('[id]', 'the pass, or the beginning of its id')
    .option('--from <agent>', 'of this originator; with an id, needed only if several passes share it', nameOption)
    .option('--to <agent>', 'of this subagent', nameOption)
    .option('--all', 'every open pass that the agent of --from asked for')
    .option('--session <id>', 'every open pass that the agent of --from asked for in this session')
    .option('--reason <text>', 'why; it stands in the audit trail')
    .option('--dry-run', 'say what would be ended, and end nothing')
    .option('--yes', 'do not ask, even if more than one pass would end')
    .addHelpText(
      'after',
      `
With --all or --session it also ends passes that are admitted in the meantime, and waits until all have ended. Exit 0: none is
open any more; 1: some are still open, or you said no; 2: more than one would end, without a terminal to ask at and without --yes.

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
    if (several) throw usage('an id excludes --all and --session', examples)
    return undefined
  }
  if (!several) throw usage('say which: an id, or --from <agent> with --all or --session', examples)
  if (all && session !== undefined) throw usage('--all and --session exclude one another', examples)
  if (from === undefined) throw usage('--all and --session need the agent that asked: --from <agent>', examples)
  return { ...options, from, session }
}
