import { Command } from 'commander'
import { action } from '../../connection/context.js'
import { requireOutsideWork } from './decide.js'

interface ApplyFlags {
  from?: string
  to?: string
  only?: string
  dryRun?: true
  yes?: true
  binary?: true
  whole?: true
  despiteRevocation?: true
}

/** `passover apply <id>` */
export function applyCommand(): Command {
  return new Command('apply')
    .description('apply the changes that a pass proposes: all that are approved, or none')
    .argument('<id>', 'the pass, or the beginning of its id')
    .option('--only <numbers>', 'these changes, as 1,3; the others are rejected')
    .option('--from <agent>', 'of this originator, where several passes share the id')
    .option('--to <agent>', 'of this subagent')
    .option('--dry-run', 'show what would be changed, and change nothing')
    .option('--yes', 'do not ask, and approve changes that have no decision yet (needed without a terminal)')
    .option('--binary', 'also binary content, which cannot be shown')
    .option('--despite-revocation', 'approve them even if credentials of an agent in the chain were revoked')
    .option('--whole', 'show all old and new lines of files with too many changes for a diff, and approve them')
    .addHelpText(
      'after',
      '\nChanges files below the working directory (--directory) only, and only where they are as the subagent saw them. Where no decision\n' +
        'stands, one is stored under your name (--as). Exit 1: conflicts, and nothing was written.\n\n' +
        'Example:\n  passover apply 0abcdef1 --dry-run\n  passover apply 0abcdef1 --only 1,3',
    )
    .action(
      action<ApplyFlags, [string]>(async (context, options, id) => {
        const { connectPerson } = await import('../../connection/connect-person.js')
        const { applyPass } = await import('../../apply/apply.js')
        const { openTracing } = await import('@passover/tracing')
        const { terminal, env, directory } = context
        requireOutsideWork(context)
        context.announcedServer()
        const { revokedAgents } = await import('../../auth/find-keys.js')
        await using bus = await connectPerson(context)
        await using tracing = await openTracing({ env, service: 'passover', say: (line) => terminal.note(line) })
        return await applyPass(bus, terminal, { ...options, id, directory, tracing, revoked: revokedAgents(context.server()) })
      }),
    )
}

interface UndoFlags {
  dryRun?: true
  yes?: true
}

/** `passover undo <id>` */
export function undoCommand(): Command {
  return new Command('undo')
    .description('put back what apply changed here, where nothing was changed since')
    .argument('<id>', 'the pass, or the beginning of its id')
    .option('--dry-run', 'say what would be put back, and change nothing')
    .option('--yes', 'do not ask')
    .addHelpText('after', '\nExample:\n  passover undo 0abcdef1')
    .action(
      action<UndoFlags, [string]>(async (context, options, id) => {
        const { connectPerson } = await import('../../connection/connect-person.js')
        const { undoPass } = await import('../../apply/undo.js')
        await using bus = await connectPerson(context)
        return await undoPass(bus, context.terminal, { ...options, id, directory: context.directory })
      }),
    )
}
