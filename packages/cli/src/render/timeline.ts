import { chainOf, isOpen, type PassResult, revokedText, statusLabel } from '@passover/operator'
import type { AnsweredPass, TimelineEntry } from '@passover/schemas'
import { nameMarks } from '@passover/sdk/internal/format'
import { clockTime, dateTime, duration } from '../terminal/duration.js'
import type { Terminal } from '../terminal/terminal.js'
import { indent, oneLine } from '../terminal/text.js'
import { renderItem } from './inbox.js'
import { elapsed, statusColor } from './pass-rows.js'
import { renderResult } from './result.js'

type View = Pick<Terminal, 'colors' | 'columns'>

/** Renders the output of `show`: facts, timeline, result and decisions. An error comes first. */
export function renderPass(pass: AnsweredPass, result: PassResult | undefined, view: View & { now: number; person: string }): string {
  const { row } = pass
  const { bold } = view.colors
  const facts = renderFacts(pass, view)
  const reader = { ...view, within: 'show' as const, ...(view.person === row.originator ? { as: 'originator' as const } : {}) }
  const sections = [`${bold(row.id)}  ${statusColor(row, view.colors)(statusLabel(row))}`]
  if (result && 'error' in result) sections.push(renderResult(result, reader))
  if (pass.due) sections.push(`${bold('Waits for a decision')}\n${indent(renderItem(pass.due, view))}`)
  sections.push(facts.join('\n'), `${bold('Timeline')}\n${renderTimeline(pass.history ?? [], view)}`)
  if (pass.history_left_out) sections.push(`(${pass.history_left_out} entries in the middle are omitted)`)
  if (pass.below && pass.below.length > 0) sections.push(`${bold('Child passes')}\n${renderBelow(pass, view)}`)
  if (result && !('error' in result)) sections.push(`${bold('Result')}\n${indent(renderResult(result, reader))}`)
  if (pass.decisions.length > 0) sections.push(`${bold('Decisions')}\n${renderDecisions(pass)}`)
  return sections.join('\n\n')
}

function renderFacts(pass: AnsweredPass, { now }: { now: number }): string[] {
  const { row } = pass
  const chain = chainOf(pass).join(' → ')
  const max = numberOf(pass.control?.max_chain_depth)
  const facts: [string, string | undefined][] = [
    ['chain', row.chain_depth === undefined ? chain : `${chain} (depth ${row.chain_depth}${max === undefined ? '' : ` of ${max}`})`],
    ['reason', row.reason],
    ['revoked', pass.revoked && `⚠ ${revokedText(pass.revoked)}`],
    ['parent', row.parent],
    ['retry of', row.retry_of],
    ['requeued', row.requeued_as],
    ['dropped by', row.dropped_by && `${row.dropped_by}${nameMarks({ ...pass.history?.find(({ kind }) => kind === 'settled') })}`],
    ['session', row.session_id],
    ['priority', row.priority],
    ['asked', dateTime(row.created_at)],
    ['took', isOpen(row) ? undefined : duration(elapsed(row, now))],
    [
      'ends by',
      isOpen(row) && pass.deadline !== undefined ? `${dateTime(pass.deadline)} (in ${duration(pass.deadline - now)})` : undefined,
    ],
    ['send', row.send],
    ['request digest', pass.due?.digest === pass.digest ? undefined : pass.digest],
    ['unchecked', textOf(pass.record?.output_unchecked)],
  ]
  return facts.filter(([, value]) => value !== undefined).map(([name, value]) => `  ${name.padEnd(10)} ${oneLine(value ?? '')}`)
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** Renders the child passes in the order of their requests. */
function renderBelow({ below = [], below_more }: AnsweredPass, { colors }: View): string {
  const lines = [...below]
    .reverse()
    .map((row) => `  ${oneLine(row.id)}  → ${oneLine(row.subagent)}  ${statusColor(row, colors)(statusLabel(row))}`)
  return [...(below_more ? ['  (older ones are omitted)'] : []), ...lines].join('\n')
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined
}

/** Width of the column for an entry's kind; `acknowledged` is the longest. */
export const KIND_WIDTH = 12

/** Renders every stored message of a pass with its time, and the time since the previous one. */
export function renderTimeline(entries: TimelineEntry[], { colors }: Pick<Terminal, 'colors'>): string {
  if (entries.length === 0) return '  (nothing stored)'
  return entries
    .map((entry, index) => {
      const before = entries[index - 1]
      const since = before ? `+${duration(entry.time - before.time)}` : ''
      const text = entryText(entry)
      const line = `  ${colors.dim(clockTime(entry.time))}  ${since.padStart(9)}  ${(isUndo(entry) ? 'undone' : entry.kind).padEnd(KIND_WIDTH)} ${text}`
      return entry.ignored ? `${line}  ${colors.red(`ignored: ${oneLine(entry.ignored)}`)}` : line
    })
    .join('\n')
}

/** True for an undo, which is stored as an `applied` event with a detail that ends in "undone". */
function isUndo({ kind, detail }: Pick<TimelineEntry, 'kind' | 'detail'>): boolean {
  return kind === 'applied' && detail?.endsWith(' undone') === true
}

const TEXT_BY_KIND: Record<string, (entry: TimelineEntry) => string> = {
  request: ({ by }) => `requested by ${by}`,
  held: () => 'held until a person approves the start',
  work: ({ by }) => `admitted, waits for a worker (${by})`,
  fence: ({ by, attempt }) => `${by} starts attempt ${attempt ?? '?'}; earlier attempts can no longer return`,
  return: ({ by }) => (by === 'passover' ? 'ended by passover' : `${by} returns`),
  decision: decisionText,
  started: ({ by }) => `${by} starts to work on it`,
  progress: ({ by }) => `${by} reports progress`,
  applied: (entry) => (isUndo(entry) ? `${entry.by} undid the application` : `${entry.by} applied the result`),
  cancel: ({ by }) => `${by} cancels`,
  late: ({ by }) => `${by} returns late; the output is stored, not delivered`,
  dead_letter: () => 'kept as a dead letter',
  settled: ({ by }) => `${by} settles the dead letter`,
  expired: () => 'not released in time (E013)',
  violation: () => 'a stored message that all readers ignore',
  acknowledged: ({ by }) => `acknowledged by ${by}`,
  undelivered: () => 'not acknowledged in time (E022); it can still be fetched by its id',
}

/** Phrases for the items of a decision. */
const ITEMS: Record<string, string> = { dispatch: 'the start', return: 'the result', apply: 'the changes' }

function decisionText({ by, detail = '', counts, why }: TimelineEntry): string {
  // Live events have no judgement yet, so whether the decision counts is not stated.
  if (counts === undefined) return detail ? `${by} decides: ${detail}` : `${by} decides`
  const [item = '', verdict = 'decide'] = detail.split(' ')
  const about = ITEMS[item] ?? item
  if (!counts) return `${by} tried to ${verdict} ${about}: not valid${why === undefined ? '' : ` (${why})`}`
  const said = { approve: 'approves', deny: 'denies' }[verdict] ?? 'decides'
  return `${by} ${said} ${about}`
}

/** Describes one entry in words. */
export function entryText(
  entry: Pick<TimelineEntry, 'kind' | 'by' | 'attempt' | 'detail' | 'counts' | 'why' | 'self' | 'unverified'>,
): string {
  const by = `${entry.by}${nameMarks(entry)}`
  const said = TEXT_BY_KIND[entry.kind]?.({ ...entry, by } as TimelineEntry) ?? by
  if (entry.kind === 'decision') return oneLine(said)
  return oneLine(entry.detail ? `${said}: ${entry.detail}` : said)
}

function renderDecisions(pass: AnsweredPass): string {
  return pass.decisions
    .map((decision) => {
      const files = Object.values(decision.modifications ?? {})
      const taken = files.filter((verdict) => verdict === 'taken').length
      const split = files.length > 0 ? ` (${taken} approved, ${files.length - taken} rejected)` : ''
      const reason = decision.reason ? `: ${oneLine(decision.reason)}` : ''
      return `  ${decision.item}: ${decision.verdict === 'approve' ? 'approved' : 'denied'} by ${decision.person}${nameMarks(decision)} at ${dateTime(decision.time)}${split}${reason}`
    })
    .join('\n')
}
