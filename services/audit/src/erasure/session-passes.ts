import { encodeFrame, eventOf, ownedParts, segmentOf } from '@passover/archive'
import type { StoredMessage } from '@passover/bus'
import { type ErasedFrame, type Fact, keyText, type PassKey } from '@passover/schemas'
import { deletionEligibility, type EligibilityDeps } from '../deletion/deletion-eligibility.js'
import { deletionOrder } from '../deletion/deletion-order.js'
import { mapInBatches } from '../runtime/concurrency.js'
import type { IdUse } from './id-history.js'
import { findIdUses } from './id-lookup.js'
import { findSessionCandidates, type SessionCandidate, type SessionCandidateDeps } from './session-candidates.js'

export interface SessionDeps extends SessionCandidateDeps, Omit<EligibilityDeps, 'isHeld'> {
  untilRead: (sequence: number) => Promise<void>
  /** Returns the holds that apply to a pass. */
  holdsOn: (key: PassKey, session: string | undefined) => number[]
}

/** Maximum number of ids loaded at a time. */
const LOAD_CONCURRENCY = 16

/** A pass of a session, with everything stored about it. */
export interface SessionPass {
  key: PassKey
  /** Messages in the order in which they leave the stream (rule 4). */
  frames: ErasedFrame[]
  parts: string[]
  /**
   * Server time in milliseconds of its end, or of the last request before the erasure that could begin it again. Other messages that agents store
   * postpone nothing.
   */
  settled: number
  /** Reason why the pass counts as open, or `undefined` if it is closed. */
  open: string | undefined
  held: number[]
  /** Session under which its record is stored. */
  claimed: string | undefined
}

/** A session is identified by its name and its originator: others may use the same name. */
export interface SessionQuery {
  session: string
  /** Defaults to the only originator that has a session of this name. */
  originator?: string | undefined
  /**
   * Sequence of the erasure. Passes that began later do not count, later messages are not waited for, and later requests postpone nothing, because
   * agents keep storing messages.
   */
  before?: number | undefined
}

export interface SessionPasses {
  /** Empty if several originators have a session of this name and none of them was given. */
  passes: SessionPass[]
  /** Originators that have a session of this name. If one was given, others may be missing. */
  originators: string[]
}

/**
 * Finds the passes of a session in stream and archive: those whose root its originator requested under this name, and the requests refused within
 * them. Throws if not all indexes are read yet, or if the reader lags.
 */
export async function findSessionPasses(deps: SessionDeps, query: SessionQuery): Promise<SessionPasses> {
  const { session, before = Number.POSITIVE_INFINITY } = query
  await deps.untilRead(query.before ?? (await deps.bus.bounds()).last)
  const candidates = await findSessionCandidates(deps, session)
  const unread = new Map(candidates)
  const found: Found[] = []
  const read = async (some: readonly SessionCandidate[]): Promise<void> => {
    const left = some.filter(({ key }) => unread.delete(keyText(key)))
    for (const uses of await mapInBatches(left, ({ key }) => passesOf(deps, key, { session, before }), LOAD_CONCURRENCY))
      found.push(...uses)
  }
  const owned = () => ownedOf(eachOnce(found.filter(({ begins }) => begins < before)))
  const ownersOf = () => new Set<string | undefined>(owned().map(({ owner }) => owner))
  const all = [...candidates.values()]
  await read(all.filter(({ owners }) => owners.has(undefined)))
  // An agent can store any number of requests under a session name of another agent. One pass that counts is enough to know that an originator has
  // such a session.
  const names = query.originator === undefined ? new Set(all.flatMap(({ owners }) => [...owners])) : []
  for (const name of names) {
    const theirs = all.filter(({ owners }) => owners.has(name))
    for (let at = 0, count = 1; at < theirs.length && !ownersOf().has(name); at += count, count *= 2) {
      const some = theirs.slice(at, at + count)
      // A request that was refused within a pass belongs to the session of that pass.
      await read([...some, ...some.flatMap(({ parents }) => [...parents].flatMap((parent) => candidates.get(parent) ?? []))])
    }
  }
  const originators = ownersOf()
  const originator = query.originator ?? (originators.size === 1 ? [...originators][0] : undefined)
  if (originator !== undefined) {
    await read(all.filter(({ owners }) => owners.has(originator)))
    const own = owned().flatMap(({ owner, pass }) => (owner === originator ? [[keyText(pass.key), pass.key.subagent] as const] : []))
    const subagents = new Map(own)
    await read(all.filter(({ key, parents }) => [...parents].some((parent) => subagents.get(parent) === key.originator)))
  }
  const now = owned()
  return {
    passes: now.flatMap(({ owner, pass }) => (owner === originator ? [pass] : [])),
    originators: [...new Set(now.map(({ owner }) => owner))].sort(),
  }
}

/** Returns the passes of this session that used an id: none, one, or several if the id was used again. */
async function passesOf(deps: SessionDeps, key: PassKey, { session, before }: { session: string; before: number }): Promise<Found[]> {
  const uses = (await findIdUses(deps, key)).filter((use) => use.session === session)
  return await Promise.all(
    uses.map(async (use) => {
      const { originator, parent, asks, messages } = use
      const begins = messages.reduce((first, { stored }) => Math.min(first, stored.sequence), Number.POSITIVE_INFINITY)
      const ended = settledAt(use, ({ type }) => type === 'step')
      return { originator, parent, asks, begins, ended, admitted: isAdmitted(use), pass: await passOf(deps, { session, before }, use) }
    }),
  )
}

/** A pass with the data that decides whose it is. Its messages are not kept, because a session may have many passes. */
interface Found extends Pick<IdUse, 'originator' | 'parent' | 'asks'> {
  pass: SessionPass
  /** Sequence of its first message. */
  begins: number
  /** Server time in milliseconds of its end. */
  ended: number
  admitted: boolean
}

/**
 * Removes duplicate messages. A request that was refused as malformed, or because its id was taken, is found under both ids and is kept with its
 * answer.
 */
function eachOnce(found: readonly Found[]): Found[] {
  const alone = ({ asks }: Found) => asks !== undefined
  const seen = new Set<number>()
  const once: Found[] = []
  for (const one of [...found.filter((each) => !alone(each)), ...found.filter(alone)]) {
    const frames = one.pass.frames.filter(([sequence]) => !seen.has(sequence))
    for (const [sequence] of frames) seen.add(sequence)
    if (frames.length > 0) once.push({ ...one, pass: { ...one.pass, frames } })
  }
  return once
}

/**
 * Decides whose session each pass belongs to. A request that was refused within a pass has no control frame: it belongs to the session of that pass
 * if its originator worked on that pass. A request that still waits does not: its parent has ended before a session is erased, so it can only be
 * refused, and its originator could store one after the other. For the same reason, repeated requests for a child postpone nothing.
 */
function ownedOf(found: readonly Found[]): { owner: string; pass: SessionPass }[] {
  const owners = new Map(found.flatMap((one) => (one.admitted ? [[keyText(one.pass.key), one.originator] as const] : [])))
  return found.map(({ admitted, parent, originator, asks, pass, ended }) => {
    const isOfParent = parent !== undefined && !admitted && asks !== 'waits' && parent.subagent === pass.key.originator
    const within = isOfParent ? owners.get(keyText(parent)) : undefined
    const isChild = within !== undefined || (admitted && parent !== undefined)
    return { owner: within ?? originator, pass: isChild ? { ...pass, settled: ended } : pass }
  })
}

function isAdmitted({ memory }: IdUse): boolean {
  return (memory.step('work') ?? memory.step('held')) !== undefined
}

async function passOf(deps: SessionDeps, { session, before }: { session: string; before: number }, use: IdUse): Promise<SessionPass> {
  const { memory, messages, claimed } = use
  const { key } = memory
  const stored = new Map(messages.map((message) => [message.stored.sequence, message.stored]))
  const order = deletionOrder(
    messages.map(({ fact }) => fact),
    deps.rules,
  )
  const names = new Set([session, claimed])
  return {
    key,
    frames: order.flatMap((sequence) => frameOf(stored.get(sequence))),
    parts: [...new Set(messages.flatMap((message) => ownedParts(message.stored, message.fact)))],
    settled: settledAt(use, ({ type, sequence }) => type === 'step' || (type === 'request' && sequence < before)),
    open: await whyOpen(deps, use),
    held: [...new Set([...names].flatMap((name) => deps.holdsOn(key, name)))],
    claimed,
  }
}

/** Returns the server time in milliseconds of the youngest message that counts. Steps after the end are ignored. */
function settledAt({ memory, messages }: IdUse, counts: (fact: Fact) => boolean): number {
  const { journal } = memory
  const end = journal.state === 'done' ? journal.return.sequence : Number.POSITIVE_INFINITY
  // A worker can store more messages than a call such as `Math.max` takes arguments.
  return messages.reduce((latest, { fact, stored }) => {
    return counts(fact) && (fact.type !== 'step' || fact.sequence <= end) ? Math.max(latest, stored.time) : latest
  }, 0)
}

function frameOf(stored: StoredMessage | undefined): ErasedFrame[] {
  return stored ? [[stored.sequence, stored.time, encodeFrame(eventOf(stored)).digest]] : []
}

/** Skips the hold check, which the caller makes. */
const isHeld = async () => false

async function whyOpen(deps: SessionDeps, { memory, asks }: IdUse): Promise<string | undefined> {
  if (asks) return asks === 'waits' ? 'it has not been processed yet' : undefined
  if (memory.journal.state !== 'done') return 'it has not ended yet'
  const standing = await deletionEligibility(memory, deps.bus.now(), { ...deps, isHeld })
  if (standing.may === 'go') return undefined
  if (standing.may === 'later') return 'it waits for a decision'
  return standing.why === 'dead_letter' ? 'its dead letter is neither requeued nor dropped' : 'its return has not been acknowledged yet'
}

/** Returns the segments that hold the given messages. */
export function segmentsOf(frames: Iterable<ErasedFrame>): number[] {
  return [...new Set([...frames].map(([sequence]) => segmentOf(sequence)))].sort((a, b) => a - b)
}
