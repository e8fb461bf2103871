import { isFirst } from '@passover/archive'
import { firstStepIsLate, type JournalRules, requestNamed } from '@passover/core'
import type { PassKey, Step } from '@passover/schemas'
import { describe } from '../describe.js'
import { isExpired, type Loaded, rememberAll } from '../load.js'
import type { PassMemory } from '../pass-memory.js'

type Message = Loaded['messages'][number]

/** One of the passes that had an id. */
export interface Use {
  memory: PassMemory
  /** As its steps say it, or the request that they name. */
  session: string | undefined
  messages: Message[]
}

interface Life {
  /** Where it begins: with its request, as far as that is known. */
  from: number
  /** When its first step was stored, and its last (server ms). */
  began: number
  ended: number
  /** Nothing but the refusal of a request that came too late: what is told later speaks of the pass before (rule 5). */
  expired: boolean
  messages: Message[]
}

/**
 * The passes that had one id, oldest first: one without a time may be used again after two windows, and whoever erases must not take the one
 * for the other. `asked`: of a pass without any step, its request. `messages`: all that is stored of the id, in order.
 */
export function usesOf(pass: { key: PassKey; asked: number | undefined }, messages: readonly Message[], rules: JournalRules): Use[] {
  const { lives, requests } = livesOf(messages, rules)
  const uses: Use[] = []
  for (const { expired, messages: own } of lives) {
    const memory = rememberAll(pass, inOrder(own), rules)
    const session = sessionOf(memory, rules) ?? (expired ? uses.at(-1)?.session : undefined)
    uses.push({ memory, session, messages: own })
  }
  // A request that no step names says by itself whose it is; one that does not is of the pass that it was stored in the time of.
  for (const request of requests) {
    const { sequence } = request.stored
    const says = sessionOf(rememberAll({ key: pass.key, asked: sequence }, [request], rules), rules)
    const at = Math.max(
      0,
      lives.findLastIndex(({ from }) => from <= sequence),
    )
    const use = says === undefined ? uses[at] : [...uses.slice(at), ...uses.slice(0, at).reverse()].find(({ session }) => session === says)
    use?.messages.push(request)
  }
  return uses.map((use) => ({ ...use, messages: inOrder(use.messages) }))
}

/** `requests`: those that no step names. Without any step everything is one. */
function livesOf(messages: readonly Message[], rules: JournalRules): { lives: Life[]; requests: Message[] } {
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
  if (lives.length === 0) return { lives: [{ from: 0, began: 0, ended: 0, expired: false, messages: [...messages] }], requests: [] }
  const requests: Message[] = []
  for (const message of rest.values()) {
    if (message.fact.type === 'request') requests.push(message)
    else spokenOf(lives, message)?.messages.push(message)
  }
  return { lives, requests }
}

function lifeOf(first: Step): Life {
  return { from: first.sequence, began: first.time, ended: first.time, expired: isFirst(first) && isExpired(first), messages: [] }
}

/** As the projection tells it, and refusals of what came too late by themselves. */
function beginsAnew(step: Step, rules: JournalRules): boolean {
  return isFirst(step) && (isExpired(step) || !firstStepIsLate(step, rules))
}

/** Whose event or decision it is. Who cancels at once may be heard a little before the request: that is of the pass that is nearer in time. */
function spokenOf(lives: readonly Life[], { stored, fact }: Message): Life | undefined {
  const own = lives.filter(({ expired }) => !expired)
  const before = own.findLast(({ from }) => from <= stored.sequence)
  const after = own.find(({ from }) => from > stored.sequence)
  if (!before || !after || fact.type !== 'event' || fact.kind !== 'cancel') return before ?? after ?? lives[0]
  return stored.time - before.ended < after.began - stored.time ? before : after
}

function sessionOf(memory: PassMemory, rules: JournalRules): string | undefined {
  // Nothing but impossible steps.
  if (memory.journal.state === 'none' && !memory.request) return undefined
  return describe(memory, rules).record.session_id
}

function inOrder(messages: readonly Message[]): Message[] {
  return [...messages].sort((a, b) => a.stored.sequence - b.stored.sequence)
}
