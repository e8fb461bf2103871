import { DISPATCHER, JournalTooLong, type StoredMessage } from '@passover/bus'
import { foldJournal, passError } from '@passover/core'
import {
  type DeadLetter,
  type DeadLetterAnswer,
  type DeadLetterDetail,
  type DeadLettersAnswer,
  HEADER,
  type PassKey,
  type Question,
  storedId,
} from '@passover/schemas'
import { type LoadDeps, loadPass } from '../pass/load-pass.js'
import { noteKey, noteOf } from '../pass/unanswered-requests.js'
import { type DeadLetters, type DeliveryAdvisory, type KnownDeadLetter, letterBody, letterOf } from './dead-letters.js'
import type { PassLists } from './pass-lists.js'

export interface DeadLetterDeps extends LoadDeps {
  dead: DeadLetters
  lists: Pick<PassLists, 'keys'>
  /** True if this asker may see every pass. */
  seesAll: (name: string) => boolean
}

const DEFAULT_LIMIT = 50
/** Maximum number of advisories checked for one answer. Few are open at a time: a dead letter soon follows nearly every advisory. */
const MAX_CHECKED = 100
const MAX_PASSES = 20
/** Maximum number of originators for which the remaining letters are counted in an answer. */
const MAX_COUNTED_ORIGINATORS = 100
const MAX_SHOWN_BYTES = 64 * 1024
/** Maximum number of data bytes in one answer, which travels as one message. A request is included whole or not at all. */
const MAX_ANSWER_BYTES = 864 * 1024

type Filter = Omit<Extract<Question, { op: 'dead_letters' }>, 'op' | 'limit'>

/** Lists dead letters, newest first, including deliveries that the server gave up and no dispatcher has handled yet. */
export async function answerDeadLetters(
  deps: DeadLetterDeps,
  asker: string,
  asked: Extract<Question, { op: 'dead_letters' }>,
): Promise<DeadLettersAnswer> {
  const { limit = DEFAULT_LIMIT, before, ...filter } = asked
  await deps.dead.caughtUp
  const mine = deps.dead.newest().filter(({ key, what }) => isVisibleTo(deps, asker, { ...key, what }))
  const known = mine.map((letter) => toDeadLetter(deps, letter))
  const pending = filter.state === undefined || filter.state === 'pending' ? await pendingDeadLetters(deps) : []
  const all = [...pending, ...known].filter((letter) => isVisibleTo(deps, asker, letter) && fits(letter, { ...filter, before }))
  all.sort((a, b) => b.sequence - a.sequence)
  const letters = all.slice(0, limit)
  const last = all.length > limit ? letters.at(-1) : undefined
  const forgotten = deps.dead.hasForgotten(filter.originator)
  return {
    ok: true,
    letters,
    more: last !== undefined || forgotten,
    ...(last ? { next: last.sequence, rest: countByOriginator(all.slice(limit)) } : {}),
    ...(forgotten ? { forgotten } : {}),
  }
}

/** Counts the letters of each originator, largest count first. */
function countByOriginator(letters: readonly DeadLetter[]): { originator: string; letters: number }[] {
  const counts = new Map<string, number>()
  for (const { originator } of letters) counts.set(originator, (counts.get(originator) ?? 0) + 1)
  const counted = Array.from(counts, ([originator, count]) => ({ originator, letters: count }))
  return counted.sort((a, b) => b.letters - a.letters || (a.originator < b.originator ? -1 : 1)).slice(0, MAX_COUNTED_ORIGINATORS)
}

/** Returns one dead letter with its bytes and the request that a requeue would repeat. Answers E041 if the asker may see no such letter. */
export async function answerDeadLetter(
  deps: DeadLetterDeps,
  asker: string,
  asked: Extract<Question, { op: 'dead_letter' }>,
): Promise<DeadLetterAnswer> {
  const none: DeadLetterAnswer = { ok: false, error: passError('E041', `Dead letter ${asked.id} does not exist`) }
  // An invalid id matches nothing, and must not be used as a filter.
  if (!storedId.safeParse(asked.id).success) return none
  await deps.dead.caughtUp
  const found: DeadLetterDetail[] = []
  let left = MAX_ANSWER_BYTES
  for (const key of (await keysOf(deps, asked)).slice(0, MAX_PASSES)) {
    const detail = seesRequests(deps, asker, key) || key.subagent === asker ? await detailOf(deps, { asker, key }, left) : undefined
    if (!detail) continue
    found.push(detail)
    left -= (detail.data?.length ?? 0) + (detail.request?.data.length ?? 0)
  }
  const pending = found.length > 0 ? [] : (await pendingDeadLetters(deps)).filter(({ id }) => id === asked.id)
  for (const letter of pending) {
    const { code, message } = letter
    if (isVisibleTo(deps, asker, letter)) found.push({ letter, error: passError(code as 'E011', message) })
  }
  return found.length > 0 ? { ok: true, letters: found } : none
}

async function keysOf({ dead, lists: query }: DeadLetterDeps, asked: Extract<Question, { op: 'dead_letter' }>): Promise<PassKey[]> {
  const { id, originator, subagent } = asked
  const right = (key: PassKey) => (originator ?? key.originator) === key.originator && (subagent ?? key.subagent) === key.subagent
  const known = dead.keys(id).filter(right)
  return known.length > 0 ? known : await query.keys({ id, originator, subagent })
}

/** Returns the details of a pass's dead letter, with at most `left` bytes of data. */
async function detailOf(
  deps: DeadLetterDeps,
  { asker, key }: { asker: string; key: PassKey },
  left: number,
): Promise<DeadLetterDetail | undefined> {
  const { last } = await deps.bus.bounds()
  const { messages, memory } = await loadPass(deps, key, { up_to: last })
  const events = messages.filter(({ fact }) => fact.type === 'event' && fact.kind === 'dead_letter')
  const letters = events.flatMap(({ stored }) => {
    const letter = letterOf(key, stored)
    return letter && isVisibleTo(deps, asker, { ...key, what: letter.what }) ? [{ letter, stored }] : []
  })
  const newest = letters.findLast(({ letter }) => letter.what !== 'notice') ?? letters.at(-1)
  if (!newest) return undefined
  const bytes = letterBody(newest.stored)?.bytes?.subarray(0, Math.min(MAX_SHOWN_BYTES, left))
  const request =
    seesRequests(deps, asker, key) &&
    (await requestOf(deps, { sequence: memory.request?.sequence ?? sequenceIn(newest.letter, messages), messages }))
  return {
    letter: toDeadLetter(deps, newest.letter),
    error: newest.letter.error,
    ...(bytes ? { data: bytes } : {}),
    ...(request && request.data.length <= left - (bytes?.length ?? 0) ? { request } : {}),
  }
}

/** Returns the sequence of the request: the one that the first step names, or the dead request itself. */
function sequenceIn(
  { what, dead_sequence }: KnownDeadLetter,
  messages: { fact: { type: string; request?: number | undefined } }[],
): number | undefined {
  if (what === 'request') return dead_sequence
  return messages.find(({ fact }) => fact.type === 'step')?.fact.request
}

async function requestOf(
  { bus }: DeadLetterDeps,
  { sequence, messages }: { sequence: number | undefined; messages: { stored: StoredMessage }[] },
): Promise<DeadLetterDetail['request']> {
  if (sequence === undefined) return undefined
  const here = messages.find(({ stored }) => stored.sequence === sequence)?.stored ?? (await bus.journal.message(sequence))
  if (!here) return undefined
  const content_type = here.headers.get(HEADER.contentType)
  return { sequence, ...(content_type === undefined ? {} : { content_type }), data: here.data }
}

function isVisibleTo(deps: DeadLetterDeps, asker: string, letter: Pick<DeadLetter, 'originator' | 'subagent' | 'what'>): boolean {
  return seesRequests(deps, asker, letter) || (letter.subagent === asker && letter.what === 'work')
}

/** True if the asker may see the requests of an originator. A subagent may not: they contain what the policy withholds from it (P5). */
function seesRequests({ seesAll }: DeadLetterDeps, asker: string, { originator }: Pick<PassKey, 'originator'>): boolean {
  return seesAll(asker) || originator === asker
}

function fits(letter: DeadLetter, { originator, subagent, state, before }: Filter): boolean {
  return (
    (originator ?? letter.originator) === letter.originator &&
    (subagent ?? letter.subagent) === letter.subagent &&
    (state ?? letter.state) === letter.state &&
    letter.sequence < (before ?? Number.POSITIVE_INFINITY)
  )
}

function toDeadLetter({ dead, rules }: Pick<DeadLetterDeps, 'dead' | 'rules'>, letter: KnownDeadLetter): DeadLetter {
  const { key, what, sequence, time, dead_sequence, error, bytes, truncated } = letter
  const settlement = dead.settlement(key)
  const [attempts, deliveries] = [error.details?.attempts, error.details?.deliveries]
  return {
    ...key,
    what,
    state: settlement ? (settlement.action === 'requeue' ? 'requeued' : 'dropped') : 'open',
    sequence,
    time,
    dead_sequence,
    code: error.code,
    message: error.message,
    ...(Number.isSafeInteger(attempts) ? { attempts: Number(attempts) } : {}),
    ...(Number.isSafeInteger(deliveries) ? { deliveries: Number(deliveries) } : {}),
    ...(bytes === undefined ? {} : { bytes }),
    ...(truncated ? { truncated } : {}),
    ...(settlement ? { settlement: { ...settlement, ...(rules.names && { unverified: true as const }) } } : {}),
    settled_sequence: dead.settledSequence(key),
  }
}

/** Returns work and requests that the server gave up, of passes that no dispatcher has ended and that did not end otherwise. */
async function pendingDeadLetters(deps: DeadLetterDeps): Promise<DeadLetter[]> {
  const some = deps.dead.advised().slice(0, MAX_CHECKED)
  const found = await Promise.all(some.map(async (advised) => ({ advised, letter: await pendingDeadLetter(deps, advised) })))
  return found.flatMap(({ advised, letter }) => {
    if (letter) return [letter]
    deps.dead.forget(advised)
    return []
  })
}

async function pendingDeadLetter({ bus, rules }: DeadLetterDeps, advisory: DeliveryAdvisory): Promise<DeadLetter | undefined> {
  const dead = await bus.journal.message(advisory.dead_sequence)
  const subject = dead && bus.subjects.parse(dead.subject)
  if (!dead || !subject) return undefined
  const isWork = subject.kind === 'step' && subject.step === 'work'
  if (!isWork && !(subject.kind === 'request' && advisory.consumer === DISPATCHER)) return undefined
  const key = subject.kind === 'step' ? subject.key : requestKey(bus.subjects.toFact(dead), dead)
  if (!key) return undefined
  // A journal that an agent fills up must not prevent the other dead letters from being listed.
  const steps = await bus.journal.read(key).catch((error: unknown) => {
    if (error instanceof JournalTooLong) return error.steps
    throw error
  })
  const { journal } = foldJournal(steps, rules)
  // Work with a fence stored after the advisory is not dead: a re-created consumer has delivered it to a worker.
  if (isWork ? journal.state !== 'open' || journal.valid > advisory.sequence : journal.state !== 'none') return undefined
  const { sequence, time, dead_sequence, deliveries } = advisory
  const attempts = journal.state === 'open' ? { attempts: journal.attempt } : {}
  const code = isWork ? ('E011' as const) : ('E014' as const)
  const message = 'the server gave up delivering it, and no dispatcher has closed it yet'
  return {
    ...key,
    what: isWork ? 'work' : 'request',
    state: 'pending',
    sequence,
    time,
    dead_sequence,
    code,
    message,
    ...attempts,
    deliveries,
    settled_sequence: 0,
  }
}

function requestKey(fact: ReturnType<DeadLetterDeps['bus']['subjects']['toFact']>, stored: StoredMessage): PassKey | undefined {
  return fact.type === 'request' ? noteKey(noteOf(stored, fact)) : undefined
}
