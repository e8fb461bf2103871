import { type Bus, decode, type StoredMessage, type StreamSubscription } from '@passover/bus'
import { deadLetterResolution } from '@passover/core'
import {
  type DeadLetterBody,
  deadLetterBody,
  type EventFact,
  type Fact,
  HEADER,
  keyText,
  type PassKey,
  type Settlement,
  SYSTEM,
} from '@passover/schemas'
import { PerAgent } from '../runtime/per-agent.js'

/** Metadata of a dead letter that the audit keeps in memory; its bytes stay in the stream. */
export interface KnownDeadLetter {
  key: PassKey
  what: 'work' | 'request' | 'notice'
  /** Sequence of the `dead_letter` event. */
  sequence: number
  time: number
  dead_sequence: number
  error: DeadLetterBody['error']
  bytes: number | undefined
  truncated: boolean
}

/** A server advisory about a delivery that it gave up. */
export interface DeliveryAdvisory {
  dead_sequence: number
  sequence: number
  time: number
  consumer: string
  deliveries: number
}

type SettledEvent = Pick<EventFact, 'kind' | 'sender' | 'sequence' | 'time'> & { body?: unknown }

/** Maximum number of letters kept in memory, newest first. An older letter can still be found by its pass. */
const MAX_DEAD_LETTERS = 20_000
/** Maximum number of advisories kept that no letter has followed. */
const MAX_ADVISORIES = 1_000
/** Maximum number of settling events kept for one pass. Only the first one that counts matters. */
const MAX_SETTLED_EVENTS = 64

/**
 * Tracks dead letters from the stream: `dead_letter` events, what people did about them, and the server's advisories (decision 52). Uses a reader of
 * its own, because these messages are rare and must be known from the beginning of the stream. Nothing is stored elsewhere.
 */
export class DeadLetters implements AsyncDisposable {
  readonly #isAgent: (name: string) => boolean
  readonly #most: number
  /** Letters by `keyText` of their pass, in the order of their events. */
  readonly #letters = new Map<string, KnownDeadLetter>()
  /** The same keys by originator, in the same order. */
  readonly #of = new PerAgent<string>()
  readonly #settled = new Map<string, SettledEvent[]>()
  readonly #advised = new Map<number, DeliveryAdvisory>()
  #following: StreamSubscription | undefined
  /** Originators that have older letters which are no longer in memory. */
  readonly #forgotten = new Set<string>()

  constructor(isAgent: (name: string) => boolean, most = MAX_DEAD_LETTERS) {
    this.#isAgent = isAgent
    this.#most = most
  }

  static async start(bus: Bus, isAgent: (name: string) => boolean, onRollback: (last: number) => void): Promise<DeadLetters> {
    const letters = new DeadLetters(isAgent)
    const { subjects } = bus
    const filters = [subjects.allEvents('dead_letter'), subjects.allEvents('settled'), subjects.advisories()]
    letters.#following = await bus.follow({ filters, onRollback }, (stored, fact) => letters.take(stored, fact))
    return letters
  }

  /** Settles when everything stored at the start has been read. */
  get caughtUp(): Promise<void> {
    return this.#following?.caughtUp ?? Promise.resolve()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#following?.[Symbol.asyncDispose]()
  }

  take(stored: StoredMessage, fact: Fact): void {
    if (fact.type === 'advisory') this.#advise(stored, fact.consumer)
    else if (fact.type === 'event' && fact.kind === 'settled') this.#settle(stored, fact)
    else if (fact.type === 'event' && fact.kind === 'dead_letter' && fact.sender === SYSTEM) this.#bury(stored, fact)
  }

  /** Returns the letters in memory, newest first. */
  newest(): KnownDeadLetter[] {
    return [...this.#letters.values()].reverse()
  }

  /** True if older letters of this originator, or of any originator, were dropped from memory. */
  hasForgotten(originator?: string): boolean {
    return originator === undefined ? this.#forgotten.size > 0 : this.#forgotten.has(originator)
  }

  get(key: PassKey): KnownDeadLetter | undefined {
    return this.#letters.get(keyText(key))
  }

  /** Returns the passes with this id that have a letter. */
  keys(id: string): PassKey[] {
    return [...this.#letters.values()].filter(({ key }) => key.id === id).map(({ key }) => key)
  }

  settlement(key: PassKey): Settlement | undefined {
    return deadLetterResolution(this.#settled.get(keyText(key)) ?? [], ({ sender }) => !this.#isAgent(sender))
  }

  /** Returns the sequence of the last settling event of a pass, whether it counts or not; 0 if there is none. */
  settledSequence(key: PassKey): number {
    return this.#settled.get(keyText(key))?.at(-1)?.sequence ?? 0
  }

  /** Returns advisories that no letter has followed, newest first. */
  advised(): DeliveryAdvisory[] {
    return [...this.#advised.values()].reverse()
  }

  /** Forgets an advisory that turned out not to be a dead letter. */
  forget(advisory: DeliveryAdvisory): void {
    this.#advised.delete(advisory.dead_sequence)
  }

  /** Forgets erased messages. */
  drop(erased: ReadonlySet<number>): void {
    for (const [text, { sequence, dead_sequence }] of this.#letters) {
      if (erased.has(sequence) || erased.has(dead_sequence)) this.#forgetLetter(text)
    }
    for (const [text, events] of this.#settled) if (events.some(({ sequence }) => erased.has(sequence))) this.#settled.delete(text)
    for (const dead_sequence of this.#advised.keys()) if (erased.has(dead_sequence)) this.#advised.delete(dead_sequence)
  }

  #bury(stored: StoredMessage, { key }: EventFact): void {
    const letter = letterOf(key, stored)
    if (!letter) return
    this.#advised.delete(letter.dead_sequence)
    const text = keyText(key)
    const known = this.#letters.get(text)
    // A notice that was not delivered is less important than dead work or a dead request.
    if (known && known.what !== 'notice' && letter.what === 'notice') return
    this.#forgetLetter(text)
    this.#letters.set(text, letter)
    this.#of.add(key.originator, text)
    const [oldest] = this.#letters.size > this.#most ? this.#of.largest() : []
    const forgotten = oldest === undefined ? undefined : this.#forgetLetter(oldest)
    if (!forgotten) return
    this.#forgotten.add(forgotten.key.originator)
    this.#settled.delete(keyText(forgotten.key))
  }

  #forgetLetter(text: string): KnownDeadLetter | undefined {
    const letter = this.#letters.get(text)
    if (!letter) return undefined
    this.#letters.delete(text)
    this.#of.delete(letter.key.originator, text)
    return letter
  }

  #settle(stored: StoredMessage, fact: EventFact): void {
    const text = keyText(fact.key)
    // Only an unauthorized agent stores these without end. The first ones and the latest are enough.
    const { kind, sender, sequence, time } = fact
    const known = this.#settled.get(text) ?? []
    const event = { kind, sender, sequence, time, body: bodyOf(stored) }
    this.#settled.set(text, known.length < MAX_SETTLED_EVENTS ? [...known, event] : [...known.slice(0, -1), event])
    const oldest = this.#settled.size > 2 * this.#most ? this.#settled.keys().next().value : undefined
    if (oldest !== undefined) this.#settled.delete(oldest)
  }

  #advise(stored: StoredMessage, consumer: string): void {
    const body = decode(stored.data, 'json')
    const said = body.ok ? (body.value as { stream_seq?: unknown; deliveries?: unknown } | null) : undefined
    if (!Number.isSafeInteger(said?.stream_seq)) return
    const dead_sequence = Number(said?.stream_seq)
    this.#advised.delete(dead_sequence)
    this.#advised.set(dead_sequence, {
      dead_sequence,
      sequence: stored.sequence,
      time: stored.time,
      consumer,
      deliveries: Number(said?.deliveries ?? 0),
    })
    const oldest = this.#advised.size > MAX_ADVISORIES ? this.#advised.keys().next().value : undefined
    if (oldest !== undefined) this.#advised.delete(oldest)
  }
}

/** Returns the letter in a `dead_letter` event; `undefined` if its body cannot be read. */
export function letterOf(key: PassKey, stored: StoredMessage): KnownDeadLetter | undefined {
  const body = letterBody(stored)
  if (!body) return undefined
  const { sequence, error, bytes, truncated = false } = body
  const what = bytes ? 'request' : error.code === 'E040' ? 'notice' : 'work'
  return { key, what, sequence: stored.sequence, time: stored.time, dead_sequence: sequence, error, bytes: bytes?.length, truncated }
}

export function letterBody(stored: StoredMessage): DeadLetterBody | undefined {
  return deadLetterBody.safeParse(bodyOf(stored)).data
}

function bodyOf({ data, headers }: StoredMessage): unknown {
  const decoded = decode(data, headers.get(HEADER.contentType))
  return decoded.ok ? decoded.value : undefined
}
