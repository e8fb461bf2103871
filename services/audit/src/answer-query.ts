import { passError } from '@passover/core'
import { DEFAULT_PAGE, type QueryAnswer, type Question, type StatsAnswer } from '@passover/schemas'
import type { Indexing } from './search/indexing.js'
import type { PassIndex } from './search/pass-index.js'
import type { PassSearch } from './search/pass-search.js'
import { statsOf } from './search/stats.js'

export interface QueryAnswerDeps {
  search: PassSearch
  index: PassIndex
  indexing: Pick<Indexing, 'complete'>
  seesAll: (name: string) => boolean
}

/** Who is not known for a person is told about its own passes only (I6). E005: a cursor that no page gave. */
export async function answerQuery(deps: QueryAnswerDeps, asker: string, asked: Extract<Question, { op: 'query' }>): Promise<QueryAnswer> {
  const { op: _, ...query } = asked
  const page = await deps.search.page({ ...query, ...own(deps, asker) }, query.limit ?? DEFAULT_PAGE)
  return page ? { ok: true, ...page } : { ok: false, error: passError('E005', 'The cursor is none that a page of this query gave') }
}

export async function answerStats(deps: QueryAnswerDeps, asker: string, asked: Extract<Question, { op: 'stats' }>): Promise<StatsAnswer> {
  const { op: _, ...filter } = asked
  return { ok: true, ...(await statsOf(deps.index, { ...filter, ...own(deps, asker) })), complete: deps.indexing.complete }
}

function own({ seesAll }: QueryAnswerDeps, asker: string): { party?: string } {
  return seesAll(asker) ? {} : { party: asker }
}
