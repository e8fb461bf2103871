import type { PassStatus } from '@passover/schemas'
import { Command, Option } from 'commander'
import { action } from '../../connection/context.js'
import { integerOption, PASS_STATUSES } from '../../input/options.js'

const LEGEND = `
STATUS, the state of a pass:
  requested           no dispatcher has processed it yet
  held                waits for a person to approve its start (passover inbox)
  waiting_for_return  it waits for a worker, or a worker runs it
  returned            it has a result; "returned:" is followed by the outcome
  awaiting_release    waits for a person to release the result
  expired             the result was not released in time
  processed           the originator acknowledged the result
  refused             chain, policy or a limit refused the request
  timed_out           it reached its deadline
  cancelled           by its originator, a person, or together with its parent
SEND, the delivery to the originator:
  stored → dispatched → delivered → acknowledged; undelivered: not acknowledged in time (E022), can still be fetched by its id

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
    .description('list passes, newest first')
    .option('--from <agent>', 'only passes from this originator')
    .option('--to <agent>', 'only passes to this subagent')
    .addOption(new Option('--status <status>', 'only passes with this status').choices(PASS_STATUSES))
    .option('--session <id>', 'only passes of this session')
    .option('--limit <n>', 'maximum number of results', integerOption('--limit', 1, 1000), 50)
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
  if (shown >= limit) return `There are more than ${limit}: raise --limit, or ${narrow}.`
  return `There may be more: the audit service could not examine every pass in time. Use "passover audit query", or ${narrow}.`
}
