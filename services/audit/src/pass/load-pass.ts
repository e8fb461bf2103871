import { type Archive, IndexesUnread } from '@passover/archive'
import { type Bus, type StoredMessage, sequenceOfBad } from '@passover/bus'
import { EMPTY_JOURNAL, isExpiry, isSystemStep, type JournalRules, next, requestNamed } from '@passover/core'
import { type Fact, isFirst, type PassKey, PRIORITIES, type RequestFact, type Step, SYSTEM } from '@passover/schemas'
import { BoundedBodies, withCounting } from './bounded-bodies.js'
import { isRecorded, PassMemory } from './pass-memory.js'
import { noteOf } from './unanswered-requests.js'

/** Number of messages of a pass after which loading stops. */
const MAX_MESSAGES = 10_000

export interface LoadDeps {
  bus: Bus
  archive: Archive
  rules: JournalRules
}

export interface LoadOptions {
  /** Highest sequence to load. */
  up_to: number
  /** Sequence from which the pass may have messages. */
  from?: number
  /** Sequence of the request of this pass, if it is known and unanswered. */
  request?: number
}

/** Everything stored about a pass, in order, and its folded state. Bodies are bounded (see {@link BoundedBodies}). */
export interface LoadedPass {
  memory: PassMemory
  messages: { stored: StoredMessage; fact: Fact }[]
  /** True if messages were read from the archive because the stream does not have all of them. */
  archived: boolean
}

/**
 * Loads a pass from the stream, and messages that were deleted there from the archive.
 *
 * @throws BusReadError
 * @throws IndexesUnread if the archive may hold more of the pass in segments whose indexes are not read yet
 */
export async function loadPass(deps: LoadDeps, key: PassKey, options: LoadOptions): Promise<LoadedPass> {
  const { bus, archive } = deps
  const bodies = new BoundedBodies()
  const messageOf = (stored: StoredMessage): Message => bodies.bounded({ stored, fact: bus.subjects.toFact(stored) })
  const live = (await historyOf(bus, key, { from: options.from ?? sequenceOfBad(key.id), bodies })).filter(
    (stored) => stored.sequence <= options.up_to,
  )
  const steps = live.map(messageOf)
  const asked = options.request ?? refusedRequest(steps)
  // The history contains the request that its steps name if the stream has it.
  const isThere = asked === undefined || live.some(({ sequence }) => sequence === asked)
  const request = isThere ? undefined : await bus.journal.message(asked)
  const stream = merge([...steps, ...(request ? [{ stored: request, fact: bus.subjects.toFact(request) }] : [])])
  const read = (sequence: number) => bus.journal.message(sequence)
  if (isWhole(stream) && (isThere || request)) {
    const messages = await withCounting(stream, { bodies, rules: deps.rules, read })
    return { memory: foldPass(deps, { key, asked }, messages), messages, archived: false }
  }
  const sequences = (await archive.sequencesOf(key, (stored) => requestIn(bus, stored))).filter((sequence) => sequence <= options.up_to)
  const older = await archive.messages(sequences, (stored) => messageOf(stored).stored)
  const both = withoutExpiry(merge([...older.map((stored) => ({ stored, fact: bus.subjects.toFact(stored) })), ...stream]), deps.rules)
  const messages = await withCounting(both, {
    bodies,
    rules: deps.rules,
    read: async (sequence) => (await archive.messages([sequence]))[0] ?? (await read(sequence)),
  })
  return { memory: foldPass(deps, { key, asked }, messages), messages, archived: older.length > 0 }
}

/** Returns what a load gives, or `undefined` if it needs indexes of the archive that are not read yet. */
export function ifIndexed<T>(load: Promise<T>): Promise<T | undefined> {
  return load.catch((error: unknown) => {
    if (error instanceof IndexesUnread) return undefined
    throw error
  })
}

/** True if a message can be the first step that counts. Only the dispatcher stores such steps; steps of agents alone form no journal. */
export function mayBegin(fact: Fact): boolean {
  return fact.type === 'step' && isSystemStep(fact)
}

/**
 * True if neither the stream (as its leader has it) nor the archive holds a step that can begin the pass. Reads exact subjects: each takes the
 * server microseconds, whereas a wildcard search in a large stream takes milliseconds. Throws BusReadError.
 */
export async function hasNoFirstStep({ bus, archive }: Pick<LoadDeps, 'bus' | 'archive'>, key: PassKey): Promise<boolean> {
  const { subjects, journal } = bus
  const firsts = [subjects.held(key), ...PRIORITIES.map((priority) => subjects.work(key, priority)), subjects.return(key, SYSTEM)]
  const found = await Promise.all(firsts.map((subject) => journal.newest(subject)))
  return found.every((stored) => stored === undefined) && !(await archive.mayBegin(key))
}

/** Returns the request that a refused pass names. Only the request contains its session and objective, so the record depends on it. */
function refusedRequest(messages: readonly Message[]): number | undefined {
  const first = firstStep(messages)
  return first?.kind === 'return' && isFirst(first) ? requestNamed(first)?.sequence : undefined
}

/** Returns the sequence of the request that a step names. Few messages of a pass are older than it, by at most EARLY_MESSAGE_MS. */
export function requestIn(bus: Bus, stored: StoredMessage): number | undefined {
  const fact = bus.subjects.toFact(stored)
  return fact.type === 'step' ? requestNamed(fact)?.sequence : undefined
}

type Message = LoadedPass['messages'][number]

function firstStep(messages: readonly Message[]): Step | undefined {
  for (const { fact } of messages) if (fact.type === 'step' && fact.untrusted === undefined) return fact
  return undefined
}

/**
 * Reads everything stored about a pass. If its parties stored so many messages that the history is cut off, streams the rest without bodies, up to
 * MAX_MESSAGES.
 */
async function historyOf(
  bus: Bus,
  key: PassKey,
  { from, bodies }: { from: number | undefined; bodies: BoundedBodies },
): Promise<StoredMessage[]> {
  let cut = false
  const found = await bus.journal.history(key, from, (what) => {
    if (what !== 'progress') cut = true
  })
  if (!cut) return found
  const bySequence = new Map(found.map((stored) => [stored.sequence, stored]))
  const filters = [bus.subjects.journal(key), bus.subjects.events(key), bus.subjects.decisions(key)]
  let stop = (): void => undefined
  const full = new Promise<void>((resolve) => {
    stop = resolve
  })
  await using reader = await bus.follow({ filters, headers_only: true, ...(from === undefined ? {} : { from }) }, (stored) => {
    if (bySequence.size >= MAX_MESSAGES) stop()
    else if (!bySequence.has(stored.sequence)) bySequence.set(stored.sequence, bodies.unread(stored))
  })
  await Promise.race([reader.caughtUp, reader.closed, full])
  return [...bySequence.values()].sort((a, b) => a.sequence - b.sequence)
}

/** Folds all messages of a pass, which must be in sequence order. */
export function foldMessages(
  pass: { key: PassKey; asked: number | undefined },
  messages: LoadedPass['messages'],
  rules: JournalRules,
): PassMemory {
  return foldPass({ rules }, pass, withoutExpiry(messages, rules))
}

/** Folds messages. Of the requests, only one counts: the one known to belong to the pass, or one named by a step that may name it. */
function foldPass(
  deps: Pick<LoadDeps, 'rules'>,
  { key, asked }: { key: PassKey; asked: number | undefined },
  messages: readonly Message[],
): PassMemory {
  const memory = new PassMemory(key)
  const named = new Set(messages.map(({ fact }) => (fact.type === 'step' ? requestNamed(fact)?.sequence : undefined)))
  for (const { stored, fact } of messages) {
    if (isRecorded(fact)) memory.add(stored, fact, deps.rules)
    else if (fact.type === 'request' && isAskedBy(key, fact) && (named.has(fact.sequence) || fact.sequence === asked))
      memory.request ??= noteOf(stored, fact)
  }
  return memory
}

/** True if the request is between the agents of this pass. */
function isAskedBy(key: PassKey, { originator, subagent }: RequestFact): boolean {
  return originator === key.originator && subagent === key.subagent
}

/**
 * True if the stream still holds the beginning of the journal: a first step that was guarded as such, or only a request without any step. An
 * "expired" refusal is no beginning, unless it answers a malformed request, whose id is never reused.
 */
function isWhole(messages: readonly Message[]): boolean {
  const first = firstStep(messages)
  if (!first) return messages.some(({ fact }) => fact.type === 'request')
  return isFirst(first) && (!isExpiry(first) || sequenceOfBad(first.key.id) !== undefined)
}

/**
 * Drops an "expired" refusal that answers a later request for a pass which had already begun, for example one that was deleted since (rule 5). If
 * all steps before it came too late, it stays, because it ends the pass.
 */
function withoutExpiry(messages: Message[], rules: JournalRules): Message[] {
  let journal = EMPTY_JOURNAL
  return messages.filter(({ fact }) => {
    if (fact.type !== 'step') return true
    if (journal.state !== 'none' && isFirst(fact) && isExpiry(fact)) return false
    journal = next(journal, fact, rules).journal
    return true
  })
}

/** Sorts messages by sequence and removes duplicates. */
function merge(messages: readonly Message[]): Message[] {
  const bySequence = new Map(messages.map((message) => [message.stored.sequence, message]))
  return [...bySequence.values()].sort((a, b) => a.stored.sequence - b.stored.sequence)
}
