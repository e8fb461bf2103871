import { type Bus, decode, type StoredMessage, type Subjects } from '@passover/bus'
import { askPasses, statusLabel } from '@passover/operator'
import { type CustodyBody, custodyBody, HEADER, type PassKey, passRecord, type QueriedPass, SYSTEM } from '@passover/schemas'
import { connectPerson } from '../connection/connect-person.js'
import type { Context } from '../connection/context.js'
import { formatPerson, type NameVerification, readNameVerification } from '../connection/verified-names.js'
import { custodyText } from '../render/custody.js'
import { watchReader } from '../terminal/closed-reader.js'
import { clockTime, duration } from '../terminal/duration.js'
import { stopSignals } from '../terminal/stop-signals.js'
import { oneLine } from '../terminal/text.js'
import { type FilterFlags, filterFromFlags } from './filter-options.js'

export interface TailFlags extends FilterFlags {
  count?: number
  custody?: true
}

/** A custody event as `audit tail --custody` prints it. */
interface CustodyLine extends NameVerification {
  sequence: number
  /** Time of the event, server ms. */
  time: number
  by: string
  custody: CustodyBody['kind']
  said: string
}

const REQUESTED_KINDS: ReadonlySet<string> = new Set(['hold', 'release', 'erase'])

/** Follows stored returns and prints each pass that ends as the audit service records it; with `--custody`, also custody events. */
export async function runTail(context: Context, flags: TailFlags): Promise<number> {
  const { terminal } = context
  await using bus = await connectPerson(context)
  using signals = stopSignals(() => {})
  using reader = watchReader()
  const names = flags.custody ? await readNameVerification(bus, context) : {}
  const { first, last } = await bus.bounds()
  const seen: (QueriedPass | CustodyLine)[] = []
  let told = 0
  let isEnough: () => void = () => undefined
  const enough = new Promise<void>((resolve) => {
    isEnough = resolve
  })
  const tell = (found: QueriedPass | CustodyLine, line: () => string) => {
    if (told === flags.count) return
    told++
    if (terminal.mode === 'json') seen.push(found)
    else terminal.stream(found, line)
  }
  const from = flags.since === undefined ? last + 1 : Math.max(1, first)
  const kinds = flags.custody ? (['return', 'custody'] as const) : (['return'] as const)
  await using _reader = await bus.follow({ from, filters: kinds.map((kind) => bus.subjects.all(kind)) }, async (stored, fact) => {
    if (stored.time < (flags.since ?? 0) || told === flags.count) return
    const said = fact.type === 'other' ? saidIn(stored, { subjects: bus.subjects, names }) : undefined
    if (said)
      tell(
        said,
        () =>
          `${terminal.colors.dim(clockTime(said.time))}  ${terminal.colors.bold('custody')}  ${formatPerson(said.by, said)} ${said.said}`,
      )
    if (fact.type === 'step')
      for (const found of await passesOf(bus, fact.key)) if (isWanted(found, flags)) tell(found, () => tailLine(found, context))
    if (told === flags.count) isEnough()
  })
  if (terminal.mode === 'human' && process.stderr.isTTY) terminal.note('Following; press Ctrl-C to stop.')
  const why = await Promise.race([signals.first, enough, bus.closed, reader.gone])
  if (terminal.mode === 'json') terminal.show(seen, () => '')
  return why instanceof Error ? 5 : 0
}

async function passesOf(bus: Bus, { originator, subagent, id }: PassKey): Promise<QueriedPass[]> {
  return (await askPasses(bus, { id, from: originator, to: subagent })).map(({ row, record }) => {
    const parsed = passRecord.safeParse(record)
    return { row, ...(parsed.success ? { entry: parsed.data.entry, decisions: parsed.data.decisions } : {}) }
  })
}

/** Returns the custody event of a stored message, or `undefined` if the message does not count as one. */
function saidIn(
  { sequence, time, subject, headers, data }: StoredMessage,
  { subjects, names }: { subjects: Subjects; names: NameVerification },
): CustodyLine | undefined {
  const parsed = subjects.parse(subject)
  const body = decode(data, headers.get(HEADER.contentType))
  const read = custodyBody.safeParse(body.ok ? body.value : undefined)
  if (parsed.kind !== 'custody' || !read.success) return undefined
  // Only people publish holds, releases and erasure requests; only the audit service publishes the other kinds.
  if (REQUESTED_KINDS.has(read.data.kind) === (parsed.person === SYSTEM)) return undefined
  const by = { by: parsed.person, ...(parsed.person !== SYSTEM && names) }
  return { sequence, time, ...by, custody: read.data.kind, said: custodyText(read.data) }
}

/** True if a pass that ended matches the flags. */
export function isWanted({ row, entry, decisions = [] }: QueriedPass, flags: FilterFlags): boolean {
  const { originator, subagent, session_id, status, from, to, decision, code } = filterFromFlags(flags)
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
  return `${dim(clockTime(row.ended_at ?? row.created_at))}  ${bold(statusLabel(row))}  ${row.originator} → ${row.subagent}  ${row.id}  ${took}${summary}`
}
