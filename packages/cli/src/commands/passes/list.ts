import type { PassStatus } from '@passover/schemas'
import { Command, Option } from 'commander'
import { action } from '../../connection/context.js'
import { integerOption, PASS_STATUSES } from '../../input/options.js'

const LEGEND = `
STATUS, where a pass stands:
  requested           no dispatcher has taken it yet
  held                a person decides whether it starts (passover inbox)
  waiting_for_return  its subagent works on it, or it waits for a worker
  returned            it has its result; after "returned:" stands how that ended
  awaiting_release    a person decides whether the result is delivered
  expired             nobody released its result in time
  processed           its originator has said that it has the result
  refused             chain, policy or a limit did not let it start
  timed_out           its time was up first
  cancelled           by its originator, a person, or with the pass above it
SEND, how far it is for who asked:
  stored → dispatched → delivered → acknowledged; undelivered: not taken in time (E022), still to be had by its id

Examples:
  passover list --status held
  passover list --to audit --json`

interface ListOptions {
  from?: string
  to?: string
  status?: PassStatus
  session?: string
  limit: number
}

/** `passover list` */
export function listCommand(): Command {
  return new Command('list')
    .description('show passes, newest first')
    .option('--from <agent>', 'only those that this agent asked for')
    .option('--to <agent>', 'only those that this subagent was asked for')
    .addOption(new Option('--status <status>', 'only those that stand there').choices(PASS_STATUSES))
    .option('--session <id>', 'only those of this session')
    .option('--limit <n>', 'at most so many', integerOption('--limit', 1, 1000), 50)
    .addHelpText('after', LEGEND)
    .action(
      action<ListOptions, []>(async (context, options) => {
        const { connectPerson } = await import('../../connection/connect-person.js')
        const { askList, noWorkersText, waitsForWorker, workersOf } = await import('@passover/operator')
        const { renderPassRows } = await import('../../render/pass-rows.js')
        const { noteUnknownPerson } = await import('../../doctor/audit.js')
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
        else context.terminal.show(rows, () => (passes.length === 0 ? 'No passes.' : renderPassRows(passes, bus.now(), context.terminal)))
        if (passes.length === 0) await noteUnknownPerson(bus, context.terminal)
        if (context.terminal.mode === 'human')
          for (const [name, count] of workers) if (count === 0) context.terminal.note(noWorkersText(name))
        if (more) context.terminal.note(moreText(passes.length, options.limit))
        return 0
      }),
    )
}

function moreText(shown: number, limit: number): string {
  const narrow = 'narrow with --from, --to, --status, --session'
  if (shown >= limit) return `More than ${limit}: see further with --limit, or ${narrow}.`
  return `There may be more: the audit did not look at every pass in the time of one answer: see "passover audit query", or ${narrow}.`
}
