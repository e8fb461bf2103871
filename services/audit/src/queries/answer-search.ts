import type { Bus } from '@passover/bus'
import { passError } from '@passover/core'
import { DEFAULT_PAGE, type IndexAnswer, type QueryAnswer, type Question, type StatsAnswer } from '@passover/schemas'
import type { AckIndex } from '../acknowledgments/ack-index.js'
import type { Indexer } from '../search/index/indexer.js'
import type { PassIndex } from '../search/index/pass-index.js'
import type { IndexVerifier } from '../search/index-verifier.js'
import type { PassSearch } from '../search/pass-search.js'
import { statsOf } from '../search/stats.js'

export interface QueryAnswerDeps {
  search: PassSearch
  index: PassIndex
  comparing: IndexVerifier
  acknowledged: Pick<AckIndex, 'has'>
  indexing: Pick<Indexer, 'complete'>
  seesAll: (name: string) => boolean
  bus: Bus
  /** Settles when everything up to the given sequence is read; rejects if that takes too long. */
  untilRead: (sequence: number) => Promise<void>
}

/** Finds passes. Askers that may not see every pass get only their own (I6). Answers E005 if the cursor does not come from a page of the query. */
export async function answerQuery(deps: QueryAnswerDeps, asker: string, asked: Extract<Question, { op: 'query' }>): Promise<QueryAnswer> {
  const { op: _, ...query } = asked
  const page = await deps.search.page({ ...query, ...own(deps, asker) }, query.limit ?? DEFAULT_PAGE)
  return page ? { ok: true, ...page } : { ok: false, error: passError('E005', 'The cursor does not come from a page of this query') }
}

export async function answerStats(deps: QueryAnswerDeps, asker: string, asked: Extract<Question, { op: 'stats' }>): Promise<StatsAnswer> {
  const { op: _, ...filter } = asked
  const stats = await statsOf(deps.index, { ...filter, ...own(deps, asker) }, deps.acknowledged)
  return { ok: true, ...stats, complete: deps.indexing.complete }
}

/** Compares the index with the records. Answers E013 unless the asker may see every pass. */
export async function answerIndex(
  deps: QueryAnswerDeps,
  asker: string,
  { mend }: Extract<Question, { op: 'index' }>,
): Promise<IndexAnswer> {
  if (!deps.seesAll(asker)) return { ok: false, error: passError('E013', 'Only people may compare the index') }
  if (!deps.indexing.complete) return { ok: true, complete: false, records: 0, wrong: 0, mended: 0, shown: [] }
  // A replica may have written records of messages that this process has not read yet.
  await deps.untilRead((await deps.bus.bounds()).last)
  return { ok: true, complete: true, ...(await deps.comparing.run(mend === true)) }
}

function own({ seesAll }: QueryAnswerDeps, asker: string): { party?: string } {
  return seesAll(asker) ? {} : { party: asker }
}
