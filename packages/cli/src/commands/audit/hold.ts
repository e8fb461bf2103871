import { Command, InvalidArgumentError } from 'commander'
import type { HoldFlags } from '../../audit/hold.js'
import { action } from '../../connection/context.js'
import { nameOption } from '../../input/options.js'

/** `passover audit hold add|remove|list` */
export function registerHold(group: Command): void {
  group.addCommand(
    new Command('hold')
      .description('legal holds: keep a session or a pass in stream and archive regardless of retention, and refuse to erase it')
      .addCommand(addHold())
      .addCommand(removeHold())
      .addCommand(listHolds())
      .addHelpText(
        'after',
        '\nEach hold and release is stored as an event with person, time and reason. On an isolated installation, you must be a custodian\n(docs/reference/permissions.md).\n\nExamples:\n  passover audit hold add --session abc123 --reason "dispute 17"\n  passover audit hold list\n  passover audit hold remove 4711 --reason "settled"',
      ),
  )
}

function addHold(): Command {
  return new Command('add')
    .description('hold a session, including passes that are added later, or one pass')
    .option('--session <id>', 'session to hold')
    .option('--pass <id>', 'pass to hold: its id, or its first characters')
    .option('--from <agent>', 'originator, if several passes have this id', nameOption)
    .option('--to <agent>', 'subagent, if several passes have this id', nameOption)
    .requiredOption('--reason <text>', 'reason, stored in the stream')
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
    .argument('<hold>', 'number of the hold, from `hold list`', sequence)
    .option('--reason <text>', 'reason, stored in the stream')
    .action(
      action<{ reason?: string }, [number]>(async (context, { reason }, hold) => {
        const { runRelease } = await import('../../audit/hold.js')
        return runRelease(context, hold, reason)
      }),
    )
}

function listHolds(): Command {
  return new Command('list').description('list holds: person, time, reason').action(
    action(async (context) => {
      const { runHolds } = await import('../../audit/hold.js')
      return runHolds(context)
    }),
  )
}

function sequence(text: string): number {
  if (!/^[1-9]\d{0,15}$/.test(text)) throw new InvalidArgumentError('Expected the number of a hold, from `hold list`.')
  return Number(text)
}
