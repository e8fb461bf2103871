import type { SessionCounter } from '../limits/session-counter.js'
import type { PairCounters } from '../limits/sliding-window.js'
import type { LiveJournal } from './open-pass.js'
import type { OpenRequests } from './open-requests.js'
import type { PassTree } from './pass-tree.js'
import type { PendingCancels } from './pending-cancels.js'
import { emptySnapshot, type OpenSnapshot, packAsked, packPass } from './snapshot.js'

/** The parts of the state that a snapshot contains. */
interface Fold {
  position: number
  cancels: PendingCancels
  passes: PassTree
  requests: OpenRequests
  tallies: PairCounters
  sessions: SessionCounter
}

/** Includes `cancels`, because slices after the first of an older snapshot contained some. */
const LISTS = ['cancels', 'passes', 'asked', 'minutes', 'sessions'] as const
type Entry = [list: (typeof LISTS)[number], entry: unknown]

/**
 * Yields the current state in slices of at most `size` entries. The first slice also contains all cancels, because an earlier version looks for them
 * only there. Only references are copied at once; each slice is encoded on demand, even if the fold has advanced: journals and facts are replaced,
 * never changed.
 */
export function snapshotChunks(fold: Fold, size: number): Generator<OpenSnapshot> {
  const entries = entriesOf(fold)
  const empty = () => emptySnapshot(fold.position)
  const first = { ...empty(), cancels: fold.cancels.entries(), turned: fold.sessions.turned ?? null }
  return sliced(entries, { first, empty, size })
}

/** Joins the slices of a snapshot. */
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

/**
 * Collects parallel arrays instead of one object per pass: tens of thousands of objects that live as long as the encoding would cause long garbage
 * collection pauses.
 */
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
