import { encodeFrame, eventOf, type IndexedPass, partsNamed, segmentOf } from '@passover/archive'
import type { Stored, Table } from '@passover/bus'
import { type ErasedFrame, keyText, type PassKey, type PassRecord } from '@passover/schemas'
import { recordFilter } from '../records.js'
import { deletionOrder } from '../retention.js'
import { type StandingDeps, standingOf } from '../standing.js'
import { type IdDeps, usesOfId } from './id-uses.js'
import type { Use } from './uses.js'

export interface SessionDeps extends IdDeps, Omit<StandingDeps, 'isHeld'> {
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
  // One that waits for its first step may have an id that another pass had before.
  for (const { key, session_id } of deps.unsealedRows()) if (session_id === undefined) refused.set(keyText(key), key)
  const passes: Found[] = []
  const asked = new Map([...unsaid, ...refused, ...found])
  for (const keys of inBatches([...asked.values()])) {
    passes.push(...(await Promise.all(keys.map((key) => passesOf(deps, key, session)))).flat())
  }
  return eachOnce(passes)
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
async function passesOf(deps: SessionDeps, key: PassKey, session: string): Promise<Found[]> {
  const uses = (await usesOfId(deps, key)).filter((use) => use.session === session)
  return await Promise.all(uses.map(async (use) => ({ use, pass: await passOf(deps, session, use) })))
}

interface Found {
  use: Use
  pass: SessionPass
}

/** A request that was refused since another had its id, or as malformed, is found under both names: it goes with its answer. */
function eachOnce(found: readonly Found[]): SessionPass[] {
  const alone = ({ use }: Found) => use.asks !== undefined
  const seen = new Set<number>()
  const passes: SessionPass[] = []
  for (const { pass } of [...found.filter((one) => !alone(one)), ...found.filter(alone)]) {
    const frames = pass.frames.filter(([sequence]) => !seen.has(sequence))
    for (const [sequence] of frames) seen.add(sequence)
    if (frames.length > 0) passes.push({ ...pass, frames })
  }
  return passes
}

async function passOf(deps: SessionDeps, session: string, use: Use): Promise<SessionPass> {
  const { memory, messages } = use
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
    open: await whyOpen(deps, use),
    held: deps.holdsOn(key, session),
  }
}

function frameOf(stored: Stored | undefined): ErasedFrame[] {
  return stored ? [[stored.sequence, stored.time, encodeFrame(eventOf(stored)).digest]] : []
}

/** What is held is for the caller to know. */
const isHeld = async () => false

async function whyOpen(deps: SessionDeps, { memory, asks }: Use): Promise<string | undefined> {
  if (asks) return asks === 'waits' ? 'it has no answer yet' : undefined
  if (memory.journal.state !== 'done') return 'it has no end yet'
  const standing = await standingOf(memory, deps.bus.now(), { ...deps, isHeld })
  if (standing.may === 'go') return undefined
  if (standing.may === 'later') return 'it waits for a person'
  return standing.why === 'dead_letter' ? 'its dead letter is not settled' : 'its return was not taken yet'
}

/** The segments that hold some of these. */
export function segmentsOf(frames: Iterable<ErasedFrame>): number[] {
  return [...new Set([...frames].map(([sequence]) => segmentOf(sequence)))].sort((a, b) => a - b)
}
