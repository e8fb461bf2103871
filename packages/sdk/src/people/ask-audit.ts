import type { Bus } from '@passover/bus'
import { type PassFilter, type PassQuery, queryAnswer, type StatsAnswer, statsAnswer } from '@passover/schemas'
import { ask } from './ask.js'

type Page = Awaited<ReturnType<typeof askQuery>>

/** One page of what the audit recorded. */
export async function askQuery(bus: Bus, query: PassQuery) {
  return await ask(bus, { op: 'query', ...query }, queryAnswer)
}

export async function askStats(bus: Bus, { text: _, ...filter }: PassFilter): Promise<Extract<StatsAnswer, { ok: true }>> {
  return await ask(bus, { op: 'stats', ...filter }, statsAnswer)
}

/** Page after page from the query's cursor on, until the audit says that this was all. */
export async function* pages(bus: Bus, query: PassQuery): AsyncGenerator<Page> {
  for (let cursor = query.cursor; ; ) {
    const page = await askQuery(bus, { ...query, ...(cursor === undefined ? {} : { cursor }) })
    yield page
    if (page.cursor === undefined) return
    cursor = page.cursor
  }
}
