import type { SessionCounter } from '../limits/session-counter.js'
import type { PairCounters } from '../limits/sliding-window.js'
import type { LiveJournal } from './open-pass.js'
import type { OpenRequests } from './open-requests.js'
import type { PassTree } from './pass-tree.js'
import type { PendingCancels } from './pending-cancels.js'
import { emptySnapshot, type OpenSnapshot, packAsked, packPass } from './snapshot.js'

/** What a snapshot is made of. */
interface Fold {
  position: number
  cancels: PendingCancels
  passes: PassTree
  requests: OpenRequests
  tallies: PairCounters
  sessions: SessionCounter
}

/** Of cancels too: slices after the first have had some. */
const LISTS = ['cancels', 'passes', 'asked', 'minutes', 'sessions'] as const
type Entry = [list: (typeof LISTS)[number], entry: unknown]

/**
 * A fold as it is now, in slices of at most so many entries, and in the first all cancels beside: an earlier version looks for
 * them nowhere else. Only references are taken at once; each slice is packed when it is asked for, whatever the fold has been told by then:
 * journals and facts are replaced, never changed.
 */
export function snapshotChunks(fold: Fold, size: number): Generator<OpenSnapshot> {
  const entries = entriesOf(fold)
  const empty = () => emptySnapshot(fold.position)
  const first = { ...empty(), cancels: fold.cancels.entries(), turned: fold.sessions.turned ?? null }
  return sliced(entries, { first, empty, size })
}

/** Slices put together. */
export function joinSnapshotChunks(slices: Iterable<OpenSnapshot>): OpenSnapshot | undefined {
  let whole: OpenSnapshot | undefined
  for (const slice of slices) {
    if (!whole) whole = slice
    else for (const list of LISTS) for (const entry of slice[list]) whole[list].push(entry as never)
  }
  return whole
}

function entriesOf({ passes, requests, tallies, sessions }: Fold): Generator<Entry> {
  const begun = begunOf(passes)
  const unbegun = Array.from(requests.values(), ({ fact, key, timeout_ms, cancelled }) => ({ fact, key, timeout_ms, cancelled }))
  const minutes = tallies.pack()
  const counts = sessions.pack()
  return (function* (): Generator<Entry> {
    for (const [n, text] of begun.texts.entries()) {
      const journal = begun.journals[n]
      if (journal) yield ['passes', packPass({ text, journal, cancelled: begun.cancelled.has(text) })]
    }
    for (const one of unbegun) yield ['asked', packAsked(one)]
    for (const minute of minutes) yield ['minutes', minute]
    for (const session of counts) yield ['sessions', session]
  })()
}

/** No object for each: tens of thousands that live as long as the packing would be moved about by the collector while everybody waits. */
function begunOf(passes: Fold['passes']) {
  const texts: string[] = []
  const journals: LiveJournal[] = []
  const cancelled = new Set<string>()
  for (const pass of passes.values()) {
    texts.push(pass.text)
    journals.push(pass.journal)
    if (pass.cancelled) cancelled.add(pass.text)
  }
  return { texts, journals, cancelled }
}

function* sliced(
  entries: Generator<Entry>,
  { first, empty, size }: { first: OpenSnapshot; empty: () => OpenSnapshot; size: number },
): Generator<OpenSnapshot> {
  let next = first
  let count = 0
  for (const [list, entry] of entries) {
    next[list].push(entry as never)
    count += 1
    if (count < size) continue
    yield next
    next = empty()
    count = 0
  }
  yield next
}
