import type { Bus } from '@passover/bus'
import {
  type IndexAnswer,
  indexAnswer,
  type PassFilter,
  type PassQuery,
  type Question,
  queryAnswer,
  type RepairAnswer,
  repairAnswer,
  type StatsAnswer,
  statsAnswer,
} from '@passover/schemas'
import { ask } from './ask.js'

/** Milliseconds to wait for a comparison of the index. A million records take about a minute. */
const COMPARE_TIMEOUT_MS = 300_000

type Page = Awaited<ReturnType<typeof askQuery>>

/** Returns one page of the records. */
export async function askQuery(bus: Bus, query: PassQuery) {
  return await ask(bus, { op: 'query', ...query }, queryAnswer)
}

export async function askStats(bus: Bus, { text: _, ...filter }: PassFilter): Promise<Extract<StatsAnswer, { ok: true }>> {
  return await ask(bus, { op: 'stats', ...filter }, statsAnswer)
}

/**
 * Makes the audit service compare its index with the records. With `mend` it also corrects the lines that differ.
 *
 * @returns `undefined` if no audit service answers, or only one of a version without this query.
 */
export async function askIndex(bus: Bus, { mend }: { mend?: true } = {}): Promise<Extract<IndexAnswer, { ok: true }> | undefined> {
  const answer = indexAnswer.safeParse(await bus.ask({ op: 'index', ...(mend ? { mend } : {}) }, { timeout_ms: COMPARE_TIMEOUT_MS }))
  return answer.success && answer.data.ok ? answer.data : undefined
}

/** Milliseconds to wait for a repair, which reads each named pass, if need be from the archive. */
const REPAIR_TIMEOUT_MS = 120_000

/**
 * Has the audit service make records what the stored messages say. A person may ask for it who may write no records. Without a field it repairs
 * nothing, and tells whether it would.
 *
 * @throws Failure E013 if the person may not ask for it, E040 if no audit service answers, E005 if one of a version without this question does
 */
export async function askRepair(
  bus: Bus,
  what: Omit<Extract<Question, { op: 'repair' }>, 'op'> = {},
): Promise<Omit<Extract<RepairAnswer, { ok: true }>, 'ok'>> {
  const { ok: _, ...answer } = await ask(bus, { op: 'repair', ...what }, repairAnswer, REPAIR_TIMEOUT_MS)
  return answer
}

/** Yields pages from the query's cursor on, until the last one. */
export async function* queryPages(bus: Bus, query: PassQuery): AsyncGenerator<Page> {
  for (let cursor = query.cursor; ; ) {
    const page = await askQuery(bus, { ...query, ...(cursor === undefined ? {} : { cursor }) })
    yield page
    if (page.cursor === undefined) return
    cursor = page.cursor
  }
}
