import {
  type PassQuery,
  passQuery,
  QUERY_STATUSES,
  type QueriedPass,
  queryAnswer,
  type StatsAnswer,
  type StatsBy,
  statsAnswer,
} from '@passover/schemas'

/** Asks an audit. */
export type Ask = (question: Record<string, unknown>) => Promise<unknown>

/** What an independent reader of the stream says of one pass. */
export interface Seen {
  originator: string
  subagent: string
  id: string
  /** The statuses that the stream allows: a pass that waits for a person or for an acknowledgment may have gone on. */
  statuses: readonly string[]
  /** Error code; `any`: the stream alone does not tell it. */
  code: string | undefined | 'any'
  /** `any`: nobody could read it. */
  session: string | 'any'
  ended_at: number
  /** Sequence of its return. */
  returned: number
  /** A text that its request holds; empty: it need not be found. */
  objective: string
}

type Filter = Pick<PassQuery, 'originator' | 'subagent' | 'session_id' | 'status' | 'code' | 'from' | 'to' | 'decision'>
type Stats = Extract<StatsAnswer, { ok: true }>

const TRIES = 4
const PAGE = 500
/** Of so many passes each filter takes seconds, and those of two fields are left out. */
const MANY = 500
const BUSY_MS = 200
/** Half of the width of a bucket of the audit's histogram, and a little. */
const TOLERANCE = 0.02

/**
 * Compares every filter and every statistic of an audit with the passes that the stream holds. Passes that go on meanwhile make an answer differ
 * from the one before it, so only a difference that stays is told.
 *
 * @returns what differs; empty when nothing does.
 */
export async function wrongAnswers(ask: Ask, seen: readonly Seen[], wait: (ms: number) => Promise<void>): Promise<string[]> {
  for (let tries = 1; ; tries++) {
    const wrong = await differences(new Answers(ask, wait), seen)
    if (wrong.length === 0 || tries === TRIES) return wrong
    await wait(1_000)
  }
}

class Answers {
  constructor(
    private readonly ask: Ask,
    private readonly wait: (ms: number) => Promise<void>,
  ) {}

  /** All pages. Throws when the audit does not answer. */
  async query(filter: Filter & { text?: string }): Promise<QueriedPass[]> {
    const found: QueriedPass[] = []
    let cursor: string | undefined
    do {
      const question = { ...passQuery.parse({ ...filter, limit: PAGE, ...(cursor ? { cursor } : {}) }), op: 'query' }
      const answer = queryAnswer.parse(await this.answer(question))
      if (!answer.ok) throw new Error(`${JSON.stringify(question)}: ${answer.error.message}`)
      found.push(...answer.entries)
      cursor = answer.cursor
    } while (cursor !== undefined)
    return found
  }

  async stats(filter: Filter): Promise<Stats> {
    const answer = statsAnswer.parse(await this.answer({ ...filter, op: 'stats' }))
    if (!answer.ok) throw new Error(`stats ${JSON.stringify(filter)}: ${answer.error.message}`)
    return answer
  }

  private async answer(question: Record<string, unknown>): Promise<unknown> {
    for (let tries = 0; ; tries++) {
      const answer = await this.ask(question)
      if (answer !== undefined || tries === TRIES) return answer
      await this.wait(BUSY_MS)
    }
  }
}

async function differences(answers: Answers, seen: readonly Seen[]): Promise<string[]> {
  const all = await answers.query({})
  const wrong = seen.flatMap((one) => wrongRow(one, all) ?? [])
  const keys = new Set(all.map(keyOf))
  if (keys.size < all.length) wrong.push(`of ${all.length} passes ${all.length - keys.size} are told twice`)
  for (const [told, filter, fits] of filtersOf(all)) {
    const wanted = all.filter(fits)
    wrong.push(...sameKeys(told, new Set(wanted.map(keyOf)), new Set((await answers.query(filter)).map(keyOf))))
    wrong.push(...wrongStats(told, wanted, await answers.stats(filter)))
  }
  for (const objective of new Set(seen.flatMap((one) => one.objective || []))) {
    const found = new Set((await answers.query({ text: objective })).map(keyOf))
    const missing = seen.filter((one) => one.objective === objective && keys.has(textOf(one)) && !found.has(textOf(one)))
    if (missing.length > 0) wrong.push(`text ${objective}: ${missing.length} are missing, ${missing.map(textOf).at(0)}`)
  }
  return wrong
}

function keyOf({ row }: QueriedPass): string {
  return textOf(row)
}

function textOf({ originator, subagent, id }: Pick<Seen, 'originator' | 'subagent' | 'id'>): string {
  return `${originator}/${subagent}/${id}`
}

function wrongRow(one: Seen, all: readonly QueriedPass[]): string | undefined {
  const row = all.find((found) => keyOf(found) === textOf(one))?.row
  if (!row) return `${textOf(one)} is not told`
  if (!one.statuses.includes(row.status)) return `${textOf(one)} is told as ${row.status}, the stream says ${one.statuses.join(' or ')}`
  if (one.code !== 'any' && row.code !== one.code) return `${textOf(one)} is told with code ${row.code}, the stream says ${one.code}`
  if (row.ended_at !== one.ended_at || row.return_sequence !== one.returned)
    return `${textOf(one)} is told to have ended with ${row.return_sequence}, the stream says ${one.returned}`
  return one.session === 'any' || (row.session_id ?? '') === one.session
    ? undefined
    : `${textOf(one)} is told of session ${row.session_id}, not ${one.session}`
}

type Named = [told: string, filter: Filter, fits: (one: QueriedPass) => boolean]

/** One filter for each value of each field, and some of two fields. */
function filtersOf(all: readonly QueriedPass[]): Named[] {
  const values = (of: (one: QueriedPass) => string | undefined) => [...new Set(all.flatMap((one) => of(one) ?? []))]
  const times = all.map(({ row }) => row.created_at).sort((a, b) => a - b)
  const middle = Math.floor(times[times.length >> 1] ?? 0)
  const filters: Named[] = [
    ['everything', {}, () => true],
    ['from', { from: middle }, ({ row }) => row.created_at >= middle],
    ['to', { to: middle }, ({ row }) => row.created_at < middle],
  ]
  for (const status of QUERY_STATUSES) {
    const fits = ({ row, entry }: QueriedPass) => row.status === status || entry?.status === status
    filters.push([`status ${status}`, { status }, fits])
    const wanted = (one: QueriedPass) => fits(one) && one.row.created_at < middle
    if (all.length < MANY) filters.push([`status ${status} to`, { status, to: middle }, wanted])
  }
  for (const code of values(({ row }) => row.code)) {
    const filter = { code: code as NonNullable<Filter['code']> }
    filters.push([`code ${code}`, filter, ({ row }) => row.code === code])
  }
  for (const originator of values(({ row }) => row.originator))
    filters.push([`originator ${originator}`, { originator }, ({ row }) => row.originator === originator])
  for (const subagent of values(({ row }) => row.subagent))
    filters.push([`subagent ${subagent}`, { subagent }, ({ row }) => row.subagent === subagent])
  for (const session_id of values(({ row }) => row.session_id ?? ''))
    filters.push([`session ${session_id}`, { session_id }, ({ row }) => (row.session_id ?? '') === session_id])
  for (const item of ['dispatch', 'return'] as const)
    for (const verdict of ['approve', 'deny'] as const) {
      const counts = ({ decisions = [] }: QueriedPass) =>
        decisions.some((one) => one.counts !== false && one.item === item && one.verdict === verdict)
      filters.push([`decision ${item} ${verdict}`, { decision: { item, verdict } }, counts])
    }
  return filters
}

function sameKeys(told: string, wanted: ReadonlySet<string>, found: ReadonlySet<string>): string[] {
  const missing = [...wanted].filter((key) => !found.has(key))
  const extra = [...found].filter((key) => !wanted.has(key))
  if (missing.length === 0 && extra.length === 0) return []
  return [`${told}: ${missing.length} of ${wanted.size} are missing (${missing[0]}), ${extra.length} do not belong there (${extra[0]})`]
}

const GROUP: Record<StatsBy, (one: QueriedPass) => string> = {
  month: ({ row }) => new Date(row.created_at).toISOString().slice(0, 7),
  session: ({ row }) => row.session_id ?? '',
  pair: ({ row }) => `${row.originator}->${row.subagent}`,
  status: ({ row, entry }) => (row.ended_at === undefined ? row.status : (entry?.status ?? '')),
  code: ({ row }) => row.code ?? '',
}

function wrongStats(told: string, wanted: readonly QueriedPass[], { passes, wall_ms, by }: Stats): string[] {
  const wrong = passes === wanted.length ? [] : [`statistics of ${told}: ${passes} passes, not ${wanted.length}`]
  for (const name of Object.keys(GROUP) as StatsBy[]) {
    const counts = new Map<string, number>()
    for (const one of wanted) counts.set(GROUP[name](one), (counts.get(GROUP[name](one)) ?? 0) + 1)
    const groups = by[name]?.groups ?? []
    const is = groups.map((group) => `${group.name} ${group.count}`).sort()
    const should = [...counts].map(([group, count]) => `${group} ${count}`).sort()
    // Of very many the smaller ones are left out.
    if ((by[name]?.left_out ?? 0) === 0 && is.join() !== should.join())
      wrong.push(`statistics of ${told} by ${name}: ${is.join()}, not ${should.join()}`)
  }
  return [...wrong, ...wrongTimes(told, wanted, wall_ms)]
}

function wrongTimes(told: string, wanted: readonly QueriedPass[], { count, p50 }: Stats['wall_ms']): string[] {
  const times = wanted.flatMap(({ row }) => (row.ended_at === undefined ? [] : [Math.max(0, row.ended_at - row.created_at)]))
  if (count !== times.length) return [`statistics of ${told}: ${count} times, not ${times.length}`]
  const middle = times.sort((a, b) => a - b)[Math.ceil(0.5 * times.length) - 1]
  if (middle === undefined || p50 === undefined || Math.abs(p50 - middle) <= 1 + middle * TOLERANCE) return []
  return [`statistics of ${told}: median ${p50} ms, not ${middle}`]
}
