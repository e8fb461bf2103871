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
 * Asks the audit service to compare its index with the records. With `mend`, the service also corrects the lines that differ.
 *
 * @returns `undefined` if no audit service answers, or only an older version that does not know this query.
 */
export async function askIndex(bus: Bus, { mend }: { mend?: true } = {}): Promise<Extract<IndexAnswer, { ok: true }> | undefined> {
  const answer = indexAnswer.safeParse(await bus.ask({ op: 'index', ...(mend ? { mend } : {}) }, { timeout_ms: COMPARE_TIMEOUT_MS }))
  return answer.success && answer.data.ok ? answer.data : undefined
}

/** Milliseconds to wait for a repair. It reads each named pass from the stream or the archive. */
const REPAIR_TIMEOUT_MS = 120_000

/**
 * Asks the audit service to rebuild records from the stored messages. The person needs no permission to write records. Without a field in `what`, the
 * service repairs nothing and only answers whether it can.
 *
 * @throws Failure E013 if the person may not ask for a repair, E040 if no audit service answers, E005 if an older version answers that does not know
 * this query.
 */
export async function askRepair(
  bus: Bus,
  what: Omit<Extract<Question, { op: 'repair' }>, 'op'> = {},
): Promise<Omit<Extract<RepairAnswer, { ok: true }>, 'ok'>> {
  const { ok: _, ...answer } = await ask(bus, { op: 'repair', ...what }, repairAnswer, REPAIR_TIMEOUT_MS)
  return answer
}

/** Yields all pages, starting at the cursor of the query. */
export async function* queryPages(bus: Bus, query: PassQuery): AsyncGenerator<Page> {
  for (let cursor = query.cursor; ; ) {
    const page = await askQuery(bus, { ...query, ...(cursor === undefined ? {} : { cursor }) })
    yield page
    if (page.cursor === undefined) return
    cursor = page.cursor
  }
}
