import type { DeadLetter } from '@passover/schemas'
import { Command, InvalidArgumentError, Option } from 'commander'
import { action, type Context } from '../../connection/context.js'
import type { LetterSelection } from '../../dead-letters/resolve-selected.js'
import { integerOption, nameOption } from '../../input/options.js'

const STATES = ['pending', 'open', 'requeued', 'dropped'] as const satisfies readonly DeadLetter['state'][]

interface Parties {
  from?: string
  to?: string
}

interface ListOptions extends Parties {
  state?: DeadLetter['state']
  limit: number
  before?: number
}

type SettleOptions = Omit<LetterSelection, 'ids'> & { reason?: string }

/** `passover dlq list|show|requeue|drop` */
export function dlqCommand(): Command {
  return new Command('dlq')
    .description('list, requeue or drop dead letters: work whose worker was lost, and unreadable requests')
    .addCommand(listLetters())
    .addCommand(showLetter())
    .addCommand(settling('requeue', 'request the work of a dead letter again, as a new pass that refers to it'))
    .addCommand(settling('drop', 'close a dead letter; an event records who, when and why, and nothing is deleted'))
    .addHelpText(
      'after',
      '\nA pass becomes a dead letter if the worker of its last attempt was lost, or if its message cannot be read. An error thrown by a\nhandler is a result, not a dead letter: the pass ends with E011, and its originator may request it again.\nTo find such passes: passover audit query --code E011\n\nExamples:\n  passover dlq list\n  passover dlq show 0abcdef1\n  passover dlq requeue 0abcdef1 --reason "worker fixed"',
    )
}

function listLetters(): Command {
  return parties(new Command('list').description('list dead letters, newest first'))
    .addOption(new Option('--state <state>', 'only dead letters in this state').choices([...STATES]))
    .option('--limit <n>', 'maximum number of results', integerOption('--limit', 1, 10_000), 50)
    .option('--before <sequence>', 'continue after the last result shown', sequence)
    .action(
      action<ListOptions, []>(async (context, options) => {
        const { runDlqList } = await import('../../dead-letters/list.js')
        return runDlqList(context, options)
      }),
    )
}

function showLetter(): Command {
  return parties(
    new Command('show')
      .description('show one dead letter: cause, attempts and stored bytes')
      .argument('<id>', 'pass id, or its first characters'),
  )
    .addHelpText('after', '\nExample:\n  passover dlq show bad-000000012')
    .action(
      action<Parties, [string]>(async (context, options, id) => {
        const { runDlqShow } = await import('../../dead-letters/show.js')
        return runDlqShow(context, { ...options, id })
      }),
    )
}

function settling(verb: 'requeue' | 'drop', description: string): Command {
  return parties(new Command(verb).description(description).argument('[ids...]', 'pass ids, or their first characters'))
    .option('--all', 'all open dead letters (that match --from and --to)')
    .option('--reason <text>', 'reason, stored in the audit trail')
    .option('--dry-run', 'list them without changing anything')
    .option('--yes', 'do not ask for confirmation if there are several')
    .addHelpText(
      'after',
      `\nThe decision is stored under your name (--as). If two people decide, the first decision counts.\nThe command tells the second person who decided and when.\n\nExamples:\n  passover dlq ${verb} 0abcdef1 --reason "looked at it"\n  passover dlq ${verb} --all --to audit --dry-run`,
    )
    .action(action<SettleOptions, [string[]]>((context, options, ids) => settle(context, verb, { ...options, ids })))
}

async function settle(context: Context, verb: 'requeue' | 'drop', options: SettleOptions & { ids: string[] }): Promise<number> {
  const { connectAs, connectPerson } = await import('../../connection/connect-person.js')
  const { resolveSelected } = await import('../../dead-letters/resolve-selected.js')
  await using bus = await connectPerson(context)
  const { reason } = options
  if (verb === 'drop') {
    const { dropDeadLetter } = await import('@passover/operator')
    return await resolveSelected(context, { bus, selection: options, verb }, (detail) => dropDeadLetter(bus, detail, reason))
  }
  const { requeueDeadLetter } = await import('@passover/operator')
  const asOriginator = (originator: string) => connectAs(originator, context.server())
  return await resolveSelected(context, { bus, selection: options, verb }, (detail) =>
    requeueDeadLetter(bus, asOriginator, { detail, reason }),
  )
}

function parties(command: Command): Command {
  return command
    .option('--from <agent>', 'only passes from this originator', nameOption)
    .option('--to <agent>', 'only passes to this subagent', nameOption)
}

function sequence(text: string): number {
  if (!/^[1-9]\d{0,15}$/.test(text)) throw new InvalidArgumentError('--before takes the number that the previous list ended with.')
  return Number(text)
}
