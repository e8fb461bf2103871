import type { Archive } from '@passover/archive'
import { type Bus, type StoredMessage, sequenceOfBad } from '@passover/bus'
import { EMPTY_JOURNAL, isExpiry, isSystemStep, type JournalRules, next, requestNamed } from '@passover/core'
import { type Fact, isFirst, type PassKey, type RequestFact, SLOTS, type Step, SYSTEM } from '@passover/schemas'
import { BoundedBodies, withCounting } from './bounded-bodies.js'
import { isRecorded, PassMemory } from './pass-memory.js'
import { noteOf } from './unanswered-requests.js'

/** A pass of more messages is read up to there. */
const MAX_MESSAGES = 10_000

export interface LoadDeps {
  bus: Bus
  archive: Archive
  rules: JournalRules
}

export interface LoadOptions {
  /** Only what is stored up to this sequence. */
  up_to: number
  /** Where its messages may begin. */
  from?: number
  /** Its request, as far as an unanswered one is known. */
  request?: number
}

/** Everything stored of a pass, in order, and what it amounts to. Bodies are bounded (see Bodies). */
export interface LoadedPass {
  memory: PassMemory
  messages: { stored: StoredMessage; fact: Fact }[]
  /** Some of it is no longer in the stream. */
  archived: boolean
}

/** Reads a pass from the stream, and from the archive what was deleted since. Throws BusReadError. */
export async function loadPass(deps: LoadDeps, key: PassKey, options: LoadOptions): Promise<LoadedPass> {
  const { bus, archive } = deps
  const bodies = new BoundedBodies()
  const messageOf = (stored: StoredMessage): Message => bodies.bounded({ stored, fact: bus.subjects.toFact(stored) })
  const live = (await historyOf(bus, key, { from: options.from ?? sequenceOfBad(key.id), bodies })).filter(
    (stored) => stored.sequence <= options.up_to,
  )
  const steps = live.map(messageOf)
  const asked = options.request ?? refusedRequest(steps)
  // A history has the request that its steps name, where the stream has it.
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

/** Whether a message can be the first that counts of a pass. Only the dispatcher stores such steps; an agent's step alone is no journal. */
export function mayBegin(fact: Fact): boolean {
  return fact.type === 'step' && isSystemStep(fact)
}

/**
 * Whether nothing in stream or archive can begin a pass, as the leader has it. By exact subjects: those take the server microseconds, where a
 * search by a wildcard takes milliseconds in a large stream. Throws BusReadError.
 */
export async function hasNoFirstStep({ bus, archive }: Pick<LoadDeps, 'bus' | 'archive'>, key: PassKey): Promise<boolean> {
  const { subjects, journal } = bus
  const firsts = [subjects.held(key), ...SLOTS.map((slot) => subjects.work(key, slot)), subjects.return(key, SYSTEM)]
  const found = await Promise.all(firsts.map((subject) => journal.newest(subject)))
  return found.every((stored) => stored === undefined) && !(await archive.mayBegin(key))
}

/** Of a pass that was refused only its request says whose session it was, and what was wanted: a record without these would be another one. */
function refusedRequest(messages: readonly Message[]): number | undefined {
  const first = firstStep(messages)
  return first?.kind === 'return' && isFirst(first) ? requestNamed(first)?.sequence : undefined
}

/** Little of a pass is older than the request that its steps name, and not by much (EARLY_MESSAGE_MS). */
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
 * Everything stored of a pass. Where its parties made that endless, what is not read one by one is streamed without bodies, up to
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

/** What all messages of a pass amount to, in order as they are. */
export function foldMessages(
  pass: { key: PassKey; asked: number | undefined },
  messages: LoadedPass['messages'],
  rules: JournalRules,
): PassMemory {
  return foldPass({ rules }, pass, withoutExpiry(messages, rules))
}

/** Of requests only the one that is known to be its, or that a step names which may say so. */
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

/** One between others says nothing about this pass. */
function isAskedBy(key: PassKey, { originator, subagent }: RequestFact): boolean {
  return originator === key.originator && subagent === key.subagent
}

/**
 * Whether the stream still holds the journal's beginning: a first step that was guarded as such and is no mere "expired" (which no id is twice that
 * answers a malformed request), or none at all but a request.
 */
function isWhole(messages: readonly Message[]): boolean {
  const first = firstStep(messages)
  if (!first) return messages.some(({ fact }) => fact.type === 'request')
  return isFirst(first) && (!isExpiry(first) || sequenceOfBad(first.key.id) !== undefined)
}

/**
 * Leaves out an "expired" that answers a later request for a pass which had begun, such as one that was deleted since (rule 5). After steps
 * that all came too late it is what ends the pass.
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

/** Each sequence once, in order. */
function merge(messages: readonly Message[]): Message[] {
  const bySequence = new Map(messages.map((message) => [message.stored.sequence, message]))
  return [...bySequence.values()].sort((a, b) => a.stored.sequence - b.stored.sequence)
}
