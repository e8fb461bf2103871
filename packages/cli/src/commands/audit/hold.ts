import { Command, InvalidArgumentError } from 'commander'
import type { HoldFlags } from '../../audit/hold.js'
import { action } from '../../connection/context.js'
import { nameOption } from '../../input/options.js'

/** `passover audit hold add|remove|list` */
export function registerHold(group: Command): void {
  group.addCommand(
    new Command('hold')
      .description('keep a session or a pass whatever the retention says: it leaves neither stream nor archive, and cannot be erased')
      .addCommand(addHold())
      .addCommand(removeHold())
      .addCommand(listHolds())
      .addHelpText(
        'after',
        '\nWho held what, when and why is an event in the stream. Where names are enforced, a custodian may do it (docs/reference/permissions.md).\n\nExamples:\n  passover audit hold add --session abc123 --reason "dispute 17"\n  passover audit hold list\n  passover audit hold remove 4711 --reason "settled"',
      ),
  )
}

function addHold(): Command {
  return new Command('add')
    .description('hold a session, with all that is added to it, or one pass')
    .option('--session <id>', 'this session')
    .option('--pass <id>', 'this pass, or the beginning of its id')
    .option('--from <agent>', 'of this originator, where several passes share the id', nameOption)
    .option('--to <agent>', 'of this subagent', nameOption)
    .requiredOption('--reason <text>', 'why; it stands in the stream')
    .action(
      action<HoldFlags, []>(async (context, flags) => {
        const { runHold } = await import('../../audit/hold.js')
        return runHold(context, flags)
      }),
    )
}

function removeHold(): Command {
  return new Command('remove')
    .description('release a hold')
    .argument('<hold>', 'its number, as `hold list` shows it', sequence)
    .option('--reason <text>', 'why; it stands in the stream')
    .action(
      action<{ reason?: string }, [number]>(async (context, { reason }, hold) => {
        const { runRelease } = await import('../../audit/hold.js')
        return runRelease(context, hold, reason)
      }),
    )
}

function listHolds(): Command {
  return new Command('list').description('show what is held: by whom, since when, why').action(
    action(async (context) => {
      const { runHolds } = await import('../../audit/hold.js')
      return runHolds(context)
    }),
  )
}

function sequence(text: string): number {
  if (!/^[1-9]\d{0,15}$/.test(text)) throw new InvalidArgumentError('It is named by the number that `hold list` shows.')
  return Number(text)
}
