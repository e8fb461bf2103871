import { decode } from '@passover/bus'
import { cut, isBody, type JournalRules } from '@passover/core'
import { type DecisionFact, type Fact, HEADER, type PassRecord, SYSTEM, type TimelineEntry } from '@passover/schemas'
import type { LoadedPass } from '../pass/load-pass.js'

/** Maximum number of history entries in an answer: the first and the last ones, without the middle. */
const MAX_ENTRIES = 400
const MAX_DETAIL = 500

export interface Timeline {
  history: TimelineEntry[]
  history_left_out?: number
}

/** Kinds of events that are attributed to a person, unless the originator of the pass published them. */
const BY_PERSON: ReadonlySet<string> = new Set(['cancel', 'settled', 'applied'])

interface TimelineOptions {
  heard?: TimelineEntry | undefined
  names: JournalRules['names']
}

/** Returns the stored messages of a pass as a history for people. */
export function timelineOf(loaded: LoadedPass, { decisions }: Pick<PassRecord, 'decisions'>, { heard, names }: TimelineOptions): Timeline {
  const judged = new Map(decisions.map((decision) => [decision.sequence, decision]))
  const ignored = new Map(loaded.memory.ignored.map(({ sequence, what }) => [sequence, what]))
  const { originator } = loaded.memory.key
  const isPerson = ({ kind, by }: TimelineEntry) => BY_PERSON.has(kind) && by !== SYSTEM && by !== originator
  const entries = loaded.messages.flatMap((message) => {
    const { fact } = message
    const entry = fact.type === 'decision' ? decisionEntry(fact, judged.get(fact.sequence)) : entryOf(message)
    const why = ignored.get(fact.sequence)
    if (!entry) return []
    const unverified = names !== undefined && isPerson(entry)
    return [{ ...entry, ...(unverified && { unverified: true as const }), ...(why === undefined ? {} : { ignored: why }) }]
  })
  if (heard) entries.splice(entries.findLastIndex(({ sequence }) => sequence < heard.sequence) + 1, 0, heard)
  if (entries.length <= MAX_ENTRIES) return { history: entries }
  const half = MAX_ENTRIES / 2
  return { history: [...entries.slice(0, half), ...entries.slice(-half)], history_left_out: entries.length - MAX_ENTRIES }
}

function entryOf(message: LoadedPass['messages'][number]): TimelineEntry | undefined {
  const { fact } = message
  const at = { sequence: fact.sequence, time: fact.time }
  const detail = detailOf(message, fact)
  const more = detail === undefined ? {} : { detail: cut(detail, MAX_DETAIL) }
  switch (fact.type) {
    case 'request':
      return { ...at, kind: 'request', by: fact.originator, ...more }
    case 'step':
      return { ...at, kind: fact.kind, by: fact.by, ...(fact.attempt > 0 ? { attempt: fact.attempt } : {}), ...more }
    case 'event':
      return { ...at, kind: fact.kind, by: fact.sender, ...more }
    default:
      return undefined
  }
}

/** Returns a decision as core judged it (P4). The verdict comes from the body, because headers may contain anything. */
function decisionEntry({ sequence, time, person, item }: DecisionFact, judged: PassRecord['decisions'][number] | undefined): TimelineEntry {
  const entry = { sequence, time, kind: 'decision', by: person }
  if (!judged) return { ...entry, detail: cut(item, MAX_DETAIL), counts: false, why: 'no decision' }
  const { verdict, counts = true, why, self, unverified } = judged
  const marks = { ...(self && { self }), ...(unverified && { unverified }) }
  return { ...entry, detail: cut(`${item} ${verdict}`, MAX_DETAIL), counts, ...(why === undefined ? {} : { why }), ...marks }
}

function detailOf(message: LoadedPass['messages'][number], fact: Fact): string | undefined {
  if (fact.type === 'step') return fact.kind === 'return' ? (fact.code ?? fact.status) : undefined
  if (fact.type !== 'event') return undefined
  const body = bodyOf(message)
  switch (fact.kind) {
    case 'cancel':
      return textOf(body.reason)
    case 'progress':
      return textOf(body.message)
    case 'violation':
      return textOf(body.what)
    case 'settled':
      return body.action === 'requeue' ? `requeued as ${textOf(body.requeued_as) ?? '?'}` : `dropped${reasonOf(body.reason)}`
    case 'dead_letter':
      return isBody(body.error) ? textOf(body.error.code) : undefined
    case 'applied':
      return Array.isArray(body.applied) ? `${body.applied.length} ${body.undone === true ? 'undone' : 'applied'}` : undefined
    default:
      return undefined
  }
}

function bodyOf({ stored }: LoadedPass['messages'][number]): Record<string, unknown> {
  const decoded = decode(stored.data, stored.headers.get(HEADER.contentType))
  return decoded.ok && isBody(decoded.value) ? decoded.value : {}
}

function reasonOf(reason: unknown): string {
  return typeof reason === 'string' ? `: ${reason}` : ''
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
