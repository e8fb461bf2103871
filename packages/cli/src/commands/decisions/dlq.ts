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
    .description('show what died (lost work, poisoned requests), ask for it again, or put it aside')
    .addCommand(listLetters())
    .addCommand(showLetter())
    .addCommand(settling('requeue', 'ask for the work again: a new pass, linked to the one that died'))
    .addCommand(settling('drop', 'put it aside: an event says who, when and why; nothing is deleted'))
    .addHelpText(
      'after',
      '\nWork is dead when its last attempt was lost with its worker, or when nobody could read it. A handler that throws ends its pass at once\n(E011, told to its originator, which may ask again): that is an answer, and no dead letter. passover audit query --code E011 has them.\n\nExamples:\n  passover dlq list\n  passover dlq show 0abcdef1\n  passover dlq requeue 0abcdef1 --reason "worker is mended"',
    )
}

function listLetters(): Command {
  return parties(new Command('list').description('show what is dead, newest first'))
    .addOption(new Option('--state <state>', 'only those that stand there').choices([...STATES]))
    .option('--limit <n>', 'at most so many', integerOption('--limit', 1, 10_000), 50)
    .option('--before <sequence>', 'go on after the last one shown', sequence)
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
      .description('show one dead letter: cause, attempts, its bytes')
      .argument('<id>', 'its pass, or the beginning of the id'),
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
  return parties(new Command(verb).description(description).argument('[ids...]', 'the passes, or the beginnings of their ids'))
    .option('--all', 'all that are open (with --from, --to: of these)')
    .option('--reason <text>', 'why; it stands in the audit trail')
    .option('--dry-run', 'say which, and do nothing')
    .option('--yes', 'do not ask where it is more than one')
    .addHelpText(
      'after',
      `\nIt is stored under your name (--as). Of two people one is first; the other sees who and when.\n\nExamples:\n  passover dlq ${verb} 0abcdef1 --reason "looked at it"\n  passover dlq ${verb} --all --to audit --dry-run`,
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
    .option('--from <agent>', 'of passes that this agent asked for', nameOption)
    .option('--to <agent>', 'of passes to this subagent', nameOption)
}

function sequence(text: string): number {
  if (!/^[1-9]\d{0,15}$/.test(text)) throw new InvalidArgumentError('--before takes the number that the list ended with.')
  return Number(text)
}
