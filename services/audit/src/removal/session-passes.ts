import { type Archive, encodeFrame, eventOf, type IndexedPass, partsNamed, segmentOf } from '@passover/archive'
import type { Stored, Table } from '@passover/bus'
import { type ErasedFrame, type Fact, keyText, type PassKey, type PassRecord } from '@passover/schemas'
import { type LoadDeps, loadPass, requestIn } from '../load.js'
import type { PassMemory } from '../pass-memory.js'
import { recordFilter } from '../records.js'
import { deletionOrder } from '../retention.js'
import { type StandingDeps, standingOf } from '../standing.js'
import { type Use, usesOf } from './uses.js'

export interface SessionDeps extends LoadDeps, StandingDeps {
  archive: Archive
  table: Table<PassRecord>
  /** What is in no sealed segment yet, as an index would say it. */
  unsealedRows: () => IndexedPass[]
  untilRead: (sequence: number) => Promise<void>
  /** The holds that a pass is under. */
  holdsOn: (key: PassKey, session: string | undefined) => number[]
}

/** A pass of a session, with all that is stored of it. */
export interface SessionPass {
  key: PassKey
  /** In the order in which they leave the stream (rule 4). */
  frames: ErasedFrame[]
  parts: string[]
  /** Server ms of its youngest message. */
  youngest: number
  /** Why it cannot be erased yet; undefined: it is done with. */
  open: string | undefined
  held: number[]
}

const AT_ONCE = 16

/** Every pass of a session that stream and archive know. Throws where not all indexes were read yet, or the reader lags. */
export async function sessionPasses(deps: SessionDeps, session: string): Promise<SessionPass[]> {
  await deps.untilRead((await deps.bus.bounds()).last)
  const found = new Map<string, PassKey>()
  const unsaid = new Map<string, PassKey>()
  const refused = new Map<string, PassKey>()
  for await (const rows of rowsOf(deps)) {
    for (const { key, session_id, begins } of rows) {
      if (session_id === session) found.set(keyText(key), key)
      // Of what was refused no index says the session, unless of another pass that had its id.
      else if (session_id === undefined) (begins ? refused : unsaid).set(keyText(key), key)
    }
  }
  for await (const { value } of deps.table.entries(recordFilter({ session_id: session }))) {
    if (value.session_id === session) found.set(keyText(value.key), value.key)
  }
  await withoutSaid(deps, unsaid)
  const passes: SessionPass[] = []
  const asked = new Map([...unsaid, ...refused, ...found])
  for (const keys of inBatches([...asked.values()])) {
    passes.push(...(await Promise.all(keys.map((key) => passesOf(deps, key, session)))).flat())
  }
  return passes
}

/** What the indexes say, and what they will say of what is not sealed yet. */
async function* rowsOf(deps: SessionDeps): AsyncGenerator<IndexedPass[]> {
  const { segments, complete } = await deps.archive.finder.segments()
  if (!complete) throw new Error('the indexes of the archive are still being read')
  for (const { k } of segments) yield await deps.archive.passesIn(k)
  yield deps.unsealedRows()
}

/** Takes out what a segment's end has cut, where another index says the session. What all the others say is never kept at once. */
async function withoutSaid(deps: SessionDeps, unsaid: Map<string, PassKey>): Promise<void> {
  if (unsaid.size === 0) return
  for await (const rows of rowsOf(deps)) {
    for (const { key, session_id } of rows) if (session_id !== undefined) unsaid.delete(keyText(key))
  }
}

function* inBatches(keys: readonly PassKey[]): Generator<PassKey[]> {
  for (let at = 0; at < keys.length; at += AT_ONCE) yield keys.slice(at, at + AT_ONCE)
}

/** The passes of this session that had an id: none, one, or several where it was used again. */
async function passesOf(deps: SessionDeps, key: PassKey, session: string): Promise<SessionPass[]> {
  const asked = requestOnly(deps.unsealedRows(), key)
  const uses = usesOf({ key, asked }, await messagesOf(deps, key, asked), deps.rules).filter((use) => use.session === session)
  return await Promise.all(uses.map((use) => passOf(deps, session, use)))
}

/** Everything that is stored under an id, in order, whichever use of it that belongs to. */
async function messagesOf(deps: SessionDeps, key: PassKey, asked: number | undefined): Promise<Use['messages']> {
  const { bus, archive } = deps
  const loaded = await loadPass(deps, key, { up_to: Number.MAX_SAFE_INTEGER, ...(asked === undefined ? {} : { request: asked }) })
  const all = new Map<number, Stored>(loaded.messages.map(({ stored }) => [stored.sequence, stored]))
  // With requests that no step names, and progress: what was loaded has not all of these.
  for (const stored of await archive.messages(await archive.sequencesOf(key))) all.set(stored.sequence, stored)
  const named = [...all.values()].flatMap((stored) => requestIn(bus, stored) ?? [])
  const rows = deps.unsealedRows().filter((row) => keyText(row.key) === keyText(key))
  for (const sequence of [...named, ...rows.flatMap(({ sequences }) => sequences)]) {
    if (all.has(sequence)) continue
    const stored = (await bus.journal.message(sequence)) ?? (await archive.messages([sequence]))[0]
    if (stored && isAbout(bus.subjects.toFact(stored), key)) all.set(sequence, stored)
  }
  return [...all.values()].sort((a, b) => a.sequence - b.sequence).map((stored) => ({ stored, fact: bus.subjects.toFact(stored) }))
}

async function passOf(deps: SessionDeps, session: string, { memory, messages }: Use): Promise<SessionPass> {
  const { key } = memory
  const stored = new Map(messages.map((message) => [message.stored.sequence, message.stored]))
  const order = deletionOrder(
    messages.map(({ fact }) => fact),
    deps.rules,
  )
  return {
    key,
    frames: order.flatMap((sequence) => frameOf(stored.get(sequence))),
    parts: [...new Set([...stored.values()].flatMap(partsNamed))],
    // Of one that a worker made endless there are more than a call takes arguments.
    youngest: messages.reduce((youngest, { stored: { time } }) => Math.max(youngest, time), 0),
    open: await whyOpen(deps, memory),
    held: deps.holdsOn(key, session),
  }
}

/** Of a pass that only was asked for: its newest request. */
function requestOnly(rows: readonly IndexedPass[], key: PassKey): number | undefined {
  return rows.find((row) => keyText(row.key) === keyText(key))?.sequences.at(-1)
}

function isAbout(fact: Fact, key: PassKey): boolean {
  if (fact.type === 'request') return fact.originator === key.originator && fact.subagent === key.subagent
  return 'key' in fact && keyText(fact.key) === keyText(key)
}

function frameOf(stored: Stored | undefined): ErasedFrame[] {
  return stored ? [[stored.sequence, stored.time, encodeFrame(eventOf(stored)).digest]] : []
}

async function whyOpen(deps: SessionDeps, memory: PassMemory): Promise<string | undefined> {
  if (memory.journal.state !== 'done') return 'it has no end yet'
  const standing = await standingOf(memory, deps.bus.now(), deps)
  if (standing.may === 'go' || (standing.may === 'wait' && standing.why === 'hold')) return undefined
  if (standing.may === 'later') return 'it waits for a person'
  return standing.why === 'dead_letter' ? 'its dead letter is not settled' : 'its return was not taken yet'
}

/** The segments that hold some of these. */
export function segmentsOf(frames: Iterable<ErasedFrame>): number[] {
  return [...new Set([...frames].map(([sequence]) => segmentOf(sequence)))].sort((a, b) => a - b)
}
