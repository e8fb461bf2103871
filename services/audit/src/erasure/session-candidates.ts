import type { IndexedPass } from '@passover/archive'
import { sequenceOfBad, type Table } from '@passover/bus'
import { type Clock, requestNamed } from '@passover/core'
import { keyText, type PassKey, type PassRecord } from '@passover/schemas'
import { recordFilter } from '../records/record-store.js'
import { forEachCooperative } from '../runtime/cooperative-loop.js'
import { sessionClaimOf } from './id-history.js'
import { type IdLookupDeps, messagesAt } from './id-lookup.js'

export interface SessionCandidateDeps extends IdLookupDeps {
  clock: Pick<Clock, 'after' | 'monotonic'>
  table: Table<PassRecord>
  /** Returns the index rows of the segments that are not sealed yet. */
  unsealedRows: () => IndexedPass[]
}

/** An id with a message of the session. */
export interface SessionCandidate {
  key: PassKey
  /** Originators that may own the session: the root's according to a held or work step, or the pass's own. `undefined` if not known yet. */
  owners: Set<string | undefined>
  /** Passes (`keyText`) within which its requests claim to have been made. */
  parents: Set<string>
}

interface IndexRows {
  passes: IndexedPass[]
  sealed: boolean
}

/**
 * Finds the ids that may have a pass of a session, by `keyText`. The owner is read from the messages, and so is the session if an index names none
 * (for refused requests and reused ids). Messages are read one segment at a time: loading each pass would take far longer, and one agent can store
 * thousands of them. Throws if not all indexes are read yet.
 */
export async function findSessionCandidates(deps: SessionCandidateDeps, session: string): Promise<Map<string, SessionCandidate>> {
  const found = new Map<string, SessionCandidate>()
  const add = (key: PassKey, owner: string | undefined, parent?: PassKey): void => {
    const text = keyText(key)
    const known = found.get(text) ?? { key, owners: new Set(), parents: new Set() }
    known.owners.add(owner)
    if (parent) known.parents.add(keyText(parent))
    found.set(text, known)
  }
  const look = (rows: IndexRows): Promise<void> =>
    readRows(deps, rows, (key, said) => {
      if (said.session === session) add(key, said.originator, said.admitted ? undefined : said.parent)
    })
  const unsaid = new Set<string>()
  for await (const { passes, sealed } of rowsOf(deps)) {
    // A request that waits for its first step may have an id that another pass used before.
    const looked = passes.filter(
      ({ session_id, begins }) => (sealed && session_id === session) || (session_id === undefined && (begins || !sealed)),
    )
    await look({ passes: looked, sealed })
    for (const { key, session_id, begins } of passes) {
      if (session_id === session && !found.has(keyText(key))) add(key, undefined)
      if (session_id === undefined && !begins && sealed) unsaid.add(keyText(key))
    }
  }
  for await (const { value } of deps.table.entries(recordFilter({ session_id: session }))) {
    const { key, root, parent } = value
    if (value.session_id === session) add(key, root?.originator ?? key.originator, root ? undefined : parent)
  }
  // If a segment boundary cuts a pass, the index of another segment names its session. The rows of all indexes are never in memory at once.
  if (unsaid.size > 0) {
    for await (const { passes } of rowsOf(deps)) {
      for (const { key, session_id } of passes) if (session_id !== undefined) unsaid.delete(keyText(key))
    }
  }
  if (unsaid.size > 0) {
    for await (const { passes, sealed } of rowsOf(deps)) {
      const looked = passes.filter(({ key, session_id }) => session_id === undefined && unsaid.has(keyText(key)))
      await look({ passes: looked, sealed })
    }
  }
  return found
}

/** Yields the rows of the unsealed segments, then those of every index. Unsealed segments come first, because they may be sealed meanwhile. */
async function* rowsOf(deps: SessionCandidateDeps): AsyncGenerator<IndexRows> {
  yield { passes: deps.unsealedRows(), sealed: false }
  const { segments, complete } = await deps.archive.finder.segments()
  if (!complete) throw new Error('the indexes of the archive are still being read')
  for (const { k } of segments) yield { passes: await deps.archive.passesIn(k), sealed: true }
}

type SessionClaim = NonNullable<ReturnType<typeof sessionClaimOf>>

/** Reads the messages of some rows and the requests that they answer. Reports the session that each of them names. */
async function readRows(
  deps: SessionCandidateDeps,
  { passes, sealed }: IndexRows,
  onSaid: (key: PassKey, claim: SessionClaim) => void,
): Promise<void> {
  if (passes.length === 0) return
  const { bus, clock, rules } = deps
  const messages = await messagesAt(deps, new Set(passes.flatMap(({ sequences }) => sequences)), sealed)
  const answered: { key: PassKey; sequence: number }[] = []
  const read = ({ key, sequence }: { key: PassKey; sequence: number }) => {
    const stored = messages.get(sequence)
    if (!stored) return
    const fact = bus.subjects.toFact(stored)
    const said = sessionClaimOf(key, { stored, fact }, rules)
    if (said) onSaid(key, said)
    else if (fact.type === 'step') {
      // The row of a malformed request does not have the id of its answer.
      const request = requestNamed(fact)?.sequence ?? sequenceOfBad(key.id)
      if (request !== undefined) answered.push({ key, sequence: request })
    }
  }
  await forEachCooperative(
    passes.flatMap(({ key, sequences }) => sequences.map((sequence) => ({ key, sequence }))),
    clock,
    read,
  )
  const requests = new Set(answered.map(({ sequence }) => sequence).filter((sequence) => !messages.has(sequence)))
  for (const [sequence, stored] of await messagesAt(deps, requests, sealed)) messages.set(sequence, stored)
  await forEachCooperative(answered.splice(0), clock, read)
}
