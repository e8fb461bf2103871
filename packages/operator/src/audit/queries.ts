import type { Bus } from '@passover/bus'
import {
  type IndexAnswer,
  indexAnswer,
  type PassFilter,
  type PassQuery,
  queryAnswer,
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

/** Yields pages from the query's cursor on, until the last one. */
export async function* queryPages(bus: Bus, query: PassQuery): AsyncGenerator<Page> {
  for (let cursor = query.cursor; ; ) {
    const page = await askQuery(bus, { ...query, ...(cursor === undefined ? {} : { cursor }) })
    yield page
    if (page.cursor === undefined) return
    cursor = page.cursor
  }
}
