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

/** A million records take a minute. */
const COMPARE_TIMEOUT_MS = 300_000

type Page = Awaited<ReturnType<typeof askQuery>>

/** One page of what the audit recorded. */
export async function askQuery(bus: Bus, query: PassQuery) {
  return await ask(bus, { op: 'query', ...query }, queryAnswer)
}

export async function askStats(bus: Bus, { text: _, ...filter }: PassFilter): Promise<Extract<StatsAnswer, { ok: true }>> {
  return await ask(bus, { op: 'stats', ...filter }, statsAnswer)
}

/**
 * Has the audit compare its index with the records, and with `mend` make the lines that differ what the records say.
 *
 * @returns undefined when no audit answers, or one of a version that cannot.
 */
export async function askIndex(bus: Bus, { mend }: { mend?: true } = {}): Promise<Extract<IndexAnswer, { ok: true }> | undefined> {
  const answer = indexAnswer.safeParse(await bus.ask({ op: 'index', ...(mend ? { mend } : {}) }, { timeout_ms: COMPARE_TIMEOUT_MS }))
  return answer.success && answer.data.ok ? answer.data : undefined
}

/** Page after page from the query's cursor on, until the audit says that this was all. */
export async function* queryPages(bus: Bus, query: PassQuery): AsyncGenerator<Page> {
  for (let cursor = query.cursor; ; ) {
    const page = await askQuery(bus, { ...query, ...(cursor === undefined ? {} : { cursor }) })
    yield page
    if (page.cursor === undefined) return
    cursor = page.cursor
  }
}
