import { firstStepIsLate, isExpiry, type JournalRules, openControl, requestNamed, rootSession } from '@passover/core'
import { isFirst, isSamePass, type PassKey, type Step } from '@passover/schemas'
import { decodeControlFrame } from '../pass/control-frame.js'
import { foldMessages, type LoadedPass } from '../pass/load-pass.js'
import type { PassMemory } from '../pass/pass-memory.js'
import { buildRecord } from '../records/build-record.js'
import { controlOf } from '../records/pass-history.js'

export type Message = LoadedPass['messages'][number]

/** One use of an id: a pass that had it, or requests for it that got no pass. */
export interface IdUse {
  memory: PassMemory
  /** Session according to its steps, or to the request that they name. A child belongs to the session of its root, whatever it claims. */
  session: string | undefined
  /** Originator whose session it is: the root's according to its steps, or its own if it was refused. */
  originator: string
  /** Session that the pass claims, under which its record is stored. */
  claimed: string | undefined
  /** Pass within which it was requested. */
  parent: PassKey | undefined
  messages: Message[]
  /** Set for requests without a pass: `waits` for an answer, or `answered` by a step of another use, for example because the id was taken. */
  asks?: 'waits' | 'answered' | undefined
}

interface Life {
  /** Sequence where it begins: that of its request, if known, or of its first step. */
  from: number
  /** Server times in milliseconds of its first step (`began`) and its last step (`ended`). */
  began: number
  ended: number
  /** True if it is only the refusal of an expired request. Later messages then belong to the pass before it (rule 5). */
  expired: boolean
  messages: Message[]
}

/** Everything stored under an id, in order. */
interface IdMessages {
  key: PassKey
  messages: readonly Message[]
  /** Sequences of the requests that still wait for their first step. */
  waiting: ReadonlySet<number>
}

/**
 * Returns the uses of one id, oldest first. An id without a time may be used again after two id windows, and an erasure must not confuse its uses.
 * Requests that belong to none of these passes come last, grouped by session.
 */
export function buildIdHistory({ key, messages, waiting }: IdMessages, rules: JournalRules): IdUse[] {
  const { lives, requests, others } = livesOf(messages, rules)
  const uses: IdUse[] = []
  for (const { expired, messages: own } of lives) {
    const memory = foldMessages({ key, asked: undefined }, inOrder(own), rules)
    const owned = ownedBy(memory, rules)
    const before = expired && owned.session === undefined ? uses.at(-1) : undefined
    uses.push({ memory, ...owned, ...(before && { session: before.session, claimed: before.claimed }), messages: own })
  }
  const alone: IdUse[] = []
  for (const request of requests) {
    const { sequence } = request.stored
    const memory = foldMessages({ key, asked: sequence }, [request], rules)
    const owned = ownedBy(memory, rules)
    const asks = waiting.has(sequence) ? 'waits' : 'answered'
    const at = Math.max(
      0,
      lives.findLastIndex(({ from }) => from <= sequence),
    )
    const own = asks === 'waits' ? undefined : requestedUse({ uses, at, claimed: owned.claimed })
    const isLike = (one: IdUse) => one.claimed === owned.claimed && one.asks === asks && isSameOrNone(one.parent, owned.parent)
    const use = own ?? alone.find(isLike)
    if (use) use.messages.push(request)
    else alone.push({ memory, ...owned, messages: [request], asks })
  }
  for (const other of others) spokenAlone(alone, other)?.messages.push(other)
  return [...uses, ...alone].map((use) => ({ ...use, messages: inOrder(use.messages) }))
}

/** Returns the use that a request belongs to if no step names it: by the session that it claims or, without one, by the time it was stored. */
function requestedUse({ uses, at, claimed }: { uses: readonly IdUse[]; at: number; claimed: string | undefined }): IdUse | undefined {
  if (claimed === undefined) return uses[at]
  return [...uses.slice(at), ...uses.slice(0, at).reverse()].find((use) => use.claimed === claimed)
}

interface Lives {
  lives: Life[]
  /** Requests that no step names. */
  requests: Message[]
  /** Other messages under an id without any step. */
  others: Message[]
}

function livesOf(messages: readonly Message[], rules: JournalRules): Lives {
  const lives: Life[] = []
  const rest = new Map(messages.map((message) => [message.stored.sequence, message]))
  for (const message of messages) {
    const { fact } = message
    if (fact.type !== 'step') continue
    const last = lives.at(-1)
    const life = !last || beginsAnew(fact, rules) ? lifeOf(fact) : last
    if (life !== last) lives.push(life)
    life.ended = fact.time
    life.messages.push(message)
    rest.delete(fact.sequence)
    const named = requestNamed(fact)?.sequence ?? 0
    const request = rest.get(named)
    if (request?.fact.type !== 'request') continue
    life.messages.push(request)
    life.from = Math.min(life.from, named)
    rest.delete(named)
  }
  const requests = [...rest.values()].filter(({ fact }) => fact.type === 'request')
  const others: Message[] = []
  for (const message of rest.values()) {
    if (message.fact.type !== 'request') (spokenOf(lives, message)?.messages ?? others).push(message)
  }
  return { lives, requests, others }
}

function lifeOf(first: Step): Life {
  return { from: first.sequence, began: first.time, ended: first.time, expired: isFirst(first) && isExpiry(first), messages: [] }
}

/** True if the step begins a new use, as the projection decides. The refusal of an expired request also counts as a use. */
function beginsAnew(step: Step, rules: JournalRules): boolean {
  return isFirst(step) && (isExpiry(step) || !firstStepIsLate(step, rules))
}

/** Returns the use that an event or decision belongs to. A cancel may be stored shortly before its request, so it goes to the use nearer in time. */
function spokenOf(lives: readonly Life[], { stored, fact }: Message): Life | undefined {
  const own = lives.filter(({ expired }) => !expired)
  const before = own.findLast(({ from }) => from <= stored.sequence)
  const after = own.find(({ from }) => from > stored.sequence)
  if (!before || !after || fact.type !== 'event' || fact.kind !== 'cancel') return before ?? after ?? lives[0]
  return stored.time - before.ended < after.began - stored.time ? before : after
}

function spokenAlone(alone: readonly IdUse[], { stored }: Message): IdUse | undefined {
  return alone.findLast(({ messages }) => messages.some((one) => one.stored.sequence <= stored.sequence)) ?? alone[0]
}

function ownedBy(memory: PassMemory, rules: JournalRules): Pick<IdUse, 'session' | 'originator' | 'claimed' | 'parent'> {
  const { originator } = memory.key
  const framed = memory.step('work') ?? memory.step('held')
  const control = framed && controlOf(framed)
  if (control) return { ...rootSession(control), claimed: control.session_id, parent: control.parent }
  // The pass has only impossible steps.
  if (memory.journal.state === 'none' && !memory.request) return { session: undefined, originator, claimed: undefined, parent: undefined }
  const { session_id, parent } = buildRecord(memory, rules).record
  return { session: session_id, originator, claimed: session_id, parent }
}

/** Returns the session that a single message names for its pass, or `undefined` if it names none. */
export function sessionClaimOf(
  key: PassKey,
  message: Message,
  rules: JournalRules,
): (Pick<IdUse, 'session' | 'originator' | 'parent'> & { admitted: boolean }) | undefined {
  const { stored, fact } = message
  if (fact.type === 'request') {
    return { ...ownedBy(foldMessages({ key, asked: fact.sequence }, [message], rules), rules), admitted: false }
  }
  if (fact.type !== 'step' || (fact.kind !== 'work' && fact.kind !== 'held')) return undefined
  const framed = decodeControlFrame(stored.data)
  const control = framed && openControl(framed.frame, fact)
  return control && { ...rootSession(control), parent: control.parent, admitted: true }
}

function isSameOrNone(one: PassKey | undefined, other: PassKey | undefined): boolean {
  return one === other || (one !== undefined && other !== undefined && isSamePass(one, other))
}

function inOrder(messages: readonly Message[]): Message[] {
  return [...messages].sort((a, b) => a.stored.sequence - b.stored.sequence)
}
