import { Command, Option } from 'commander'
import { action } from '../context.js'
import { wholeNumber } from '../options.js'

const STATUSES = [
  'requested',
  'held',
  'waiting_for_return',
  'returned',
  'awaiting_release',
  'expired',
  'processed',
  'refused',
  'timed_out',
  'cancelled',
]

interface ListOptions {
  from?: string
  to?: string
  status?: string
  session?: string
  limit: number
}

/** `passover list` */
export function listCommand(): Command {
  return new Command('list')
    .description('show passes, newest first')
    .option('--from <agent>', 'only those that this agent asked for')
    .option('--to <agent>', 'only those that this subagent was asked for')
    .addOption(new Option('--status <status>', 'only those that stand there').choices(STATUSES))
    .option('--session <id>', 'only those of this session')
    .option('--limit <n>', 'at most so many', wholeNumber('--limit', 1, 1000), 50)
    .addHelpText('after', '\nExamples:\n  passover list --status held\n  passover list --to audit --json')
    .action(
      action<ListOptions, []>(async (context, options) => {
        const { connectPerson } = await import('../client.js')
        const { askList, noWorkersText, waitsForWorker, workersOf } = await import('@passover/sdk/people')
        const { renderRows } = await import('../render/rows.js')
        await using bus = await connectPerson(context)
        const { passes, more } = await askList(bus, {
          limit: options.limit,
          ...(options.from ? { originator: options.from } : {}),
          ...(options.to ? { subagent: options.to } : {}),
          ...(options.status ? { status: options.status } : {}),
          ...(options.session ? { session_id: options.session } : {}),
        })
        const workers = await workersOf(bus, passes)
        const rows = passes.map((pass) => (waitsForWorker(pass) ? { ...pass, workers: workers.get(pass.subagent) ?? 0 } : pass))
        if (context.terminal.mode === 'jsonl') for (const row of rows) context.terminal.stream(row, () => undefined)
        else context.terminal.show(rows, () => (passes.length === 0 ? 'No passes.' : renderRows(passes, bus.now(), context.terminal)))
        if (context.terminal.mode === 'human')
          for (const [name, count] of workers) if (count === 0) context.terminal.note(noWorkersText(name))
        if (more)
          context.terminal.note(`More than ${options.limit}: see further with --limit, or narrow with --from, --to, --status, --session.`)
        return 0
      }),
    )
}
