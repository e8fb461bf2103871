import { passRecord, type QueriedPass } from '@passover/schemas'
import { askPasses, standing } from '@passover/sdk/people'
import { connectPerson } from '../client.js'
import type { Context } from '../context.js'
import { clock, duration } from '../duration.js'
import { stopSignals } from '../signals.js'
import { oneLine } from '../text.js'
import { type FilterFlags, filterOf } from './filter-options.js'
import type { TailFlags } from './tail-command.js'

/** Follows the returns that are stored, and tells each pass as the audit has it. */
export async function runTail(context: Context, flags: TailFlags): Promise<number> {
  const { terminal } = context
  await using bus = await connectPerson(context)
  using signals = stopSignals(() => {})
  const { first, last } = await bus.bounds()
  const seen: QueriedPass[] = []
  let told = 0
  let isEnough: () => void = () => undefined
  const enough = new Promise<void>((resolve) => {
    isEnough = resolve
  })
  const from = flags.since === undefined ? last + 1 : Math.max(1, first)
  await using _reader = await bus.follow({ from, filters: [bus.subjects.all('return')] }, async (stored, fact) => {
    if (fact.type !== 'step' || stored.time < (flags.since ?? 0) || told === flags.count) return
    const { originator, subagent, id } = fact.key
    for (const { row, record } of await askPasses(bus, { id, from: originator, to: subagent })) {
      const parsed = passRecord.safeParse(record)
      const found: QueriedPass = { row, ...(parsed.success ? { entry: parsed.data.entry, decisions: parsed.data.decisions } : {}) }
      if (!isWanted(found, flags) || told === flags.count) continue
      told++
      if (terminal.mode === 'json') seen.push(found)
      else terminal.stream(found, () => tailLine(found, context))
    }
    if (told === flags.count) isEnough()
  })
  if (terminal.mode === 'human' && process.stderr.isTTY) terminal.note('Following; Ctrl-C ends it.')
  const why = await Promise.race([signals.first, enough, bus.closed])
  if (terminal.mode === 'json') terminal.show(seen, () => '')
  return why instanceof Error ? 5 : 0
}

/** Whether a pass that ended is among those that the flags say. */
export function isWanted({ row, entry, decisions = [] }: QueriedPass, flags: FilterFlags): boolean {
  const { originator, subagent, session_id, status, from, to, decision, code } = filterOf(flags)
  return (
    (originator ?? row.originator) === row.originator &&
    (subagent ?? row.subagent) === row.subagent &&
    (session_id ?? row.session_id) === row.session_id &&
    (status === undefined || row.status === status || entry?.status === status) &&
    (code === undefined || row.code === code) &&
    row.created_at >= (from ?? 0) &&
    row.created_at < (to ?? Number.POSITIVE_INFINITY) &&
    (decision === undefined ||
      decisions.some(
        ({ item, verdict, person, counts }) =>
          counts !== false &&
          (decision.item ?? item) === item &&
          (decision.verdict ?? verdict) === verdict &&
          (decision.person ?? person) === person,
      ))
  )
}

function tailLine({ row, entry }: QueriedPass, { terminal }: Context): string {
  const { dim, bold } = terminal.colors
  const took = row.ended_at === undefined ? '' : duration(Math.max(0, row.ended_at - row.created_at))
  const summary = entry?.summary ? `  ${oneLine(entry.summary, 120)}` : ''
  return `${dim(clock(row.ended_at ?? row.created_at))}  ${bold(standing(row))}  ${row.originator} → ${row.subagent}  ${row.id}  ${took}${summary}`
}
