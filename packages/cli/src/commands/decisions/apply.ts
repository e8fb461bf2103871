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
    .description('apply the approved file changes of a pass: all of them or none')
    .argument('<id>', 'pass id, or its first characters')
    .option('--only <numbers>', 'only these changes, such as 1,3; the others are rejected')
    .option('--from <agent>', 'originator, if several passes have this id')
    .option('--to <agent>', 'subagent, if several passes have this id')
    .option('--dry-run', 'show what would be changed without changing it')
    .option('--yes', 'do not ask for confirmation, and approve changes without a decision (required without a terminal)')
    .option('--binary', 'allow binary content, which cannot be shown')
    .option('--despite-revocation', 'approve even if credentials of an agent in the chain were revoked')
    .option('--whole', 'allow files that have too many changed lines for a diff; shows all their old and new lines')
    .addHelpText(
      'after',
      '\nChanges only files in the working directory (--directory) that have not changed since the subagent saw them. If the changes have no\n' +
        'decision yet, your approval is stored under your name (--as). Exit code 1: there were conflicts, and nothing was written.\n\n' +
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
    .description('undo an apply in this directory; files that have changed since then stay unchanged')
    .argument('<id>', 'pass id, or its first characters')
    .option('--dry-run', 'show what would be restored without changing it')
    .option('--yes', 'do not ask for confirmation')
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
