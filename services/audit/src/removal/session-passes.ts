import { type Archive, encodeFrame, eventOf, type IndexedPass, partsNamed, segmentOf } from '@passover/archive'
import type { Stored, Table } from '@passover/bus'
import { type ErasedFrame, type Fact, keyText, type PassKey, type PassRecord } from '@passover/schemas'
import { describe } from '../describe.js'
import { type LoadDeps, loadPass, requestIn } from '../load.js'
import type { PassMemory } from '../pass-memory.js'
import { recordFilter } from '../records.js'
import { deletionOrder } from '../retention.js'
import { type StandingDeps, standingOf } from '../standing.js'

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
  const { segments, complete } = await deps.archive.finder.segments()
  if (!complete) throw new Error('the indexes of the archive are still being read')
  const found = new Map<string, PassKey>()
  /** Passes of which no index says the session: refused ones, and those cut by a segment's end. */
  const unsaid = new Map<string, PassKey>()
  const said = new Set<string>()
  const take = ({ key, session_id }: IndexedPass) => {
    const text = keyText(key)
    if (session_id === undefined) unsaid.set(text, key)
    else said.add(text)
    if (session_id === session) found.set(text, key)
  }
  for (const { k } of segments) for (const row of await deps.archive.passesIn(k)) take(row)
  for (const row of deps.unsealedRows()) take(row)
  for await (const { value } of deps.table.entries(recordFilter({ session_id: session }))) {
    if (value.session_id === session) found.set(keyText(value.key), value.key)
  }
  const asked = [...unsaid].filter(([text]) => !said.has(text) && !found.has(text)).map(([, key]) => key)
  const passes: SessionPass[] = []
  for (const keys of inBatches([...found.values(), ...asked])) {
    for (const pass of await Promise.all(keys.map((key) => passOf(deps, key, session)))) if (pass) passes.push(pass)
  }
  return passes
}

function* inBatches(keys: readonly PassKey[]): Generator<PassKey[]> {
  for (let at = 0; at < keys.length; at += AT_ONCE) yield keys.slice(at, at + AT_ONCE)
}

/** Undefined: nothing is stored of it any more, or it is of another session. */
async function passOf(deps: SessionDeps, key: PassKey, session: string): Promise<SessionPass | undefined> {
  const { bus, archive, rules } = deps
  const request = requestOnly(deps.unsealedRows(), key)
  const { memory, messages } = await loadPass(deps, key, { up_to: Number.MAX_SAFE_INTEGER, ...(request === undefined ? {} : { request }) })
  if (messages.length === 0 || (memory.journal.state === 'none' && !memory.request)) return undefined
  if (describe(memory, rules).record.session_id !== session) return undefined
  const all = new Map<number, Stored>(messages.map(({ stored }) => [stored.sequence, stored]))
  // With requests that no step names, and progress: what was loaded has not all of these.
  for (const stored of await archive.messages(await archive.sequencesOf(key))) all.set(stored.sequence, stored)
  const named = [...all.values()].flatMap((stored) => requestIn(bus, stored) ?? [])
  const rows = deps.unsealedRows().filter((row) => keyText(row.key) === keyText(key))
  for (const sequence of [...named, ...rows.flatMap(({ sequences }) => sequences)]) {
    if (all.has(sequence)) continue
    const stored = (await bus.journal.message(sequence)) ?? (await archive.messages([sequence]))[0]
    if (stored && isAbout(bus.subjects.toFact(stored), key)) all.set(sequence, stored)
  }
  const order = deletionOrder(
    [...all.values()].map((stored) => bus.subjects.toFact(stored)),
    rules,
  )
  return {
    key,
    frames: order.flatMap((sequence) => frameOf(all.get(sequence))),
    parts: [...new Set([...all.values()].flatMap(partsNamed))],
    youngest: Math.max(...[...all.values()].map(({ time }) => time)),
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
