import { type Guard, type MessageHeaders, type PublishResult, readHeaders, type StoredMessage } from '@passover/bus'
import type { Spoilt } from '../plans/spoil.js'

/** A message to store, as it stands on the wire. */
export interface Sent {
  subject: string
  /** Header block, the guard's own headers included. */
  block: string
  data: Uint8Array
  guard: Guard | undefined
  /** Server time at which it was sent; undefined: as it is stored. */
  sent_at?: number
  /** How its sender has spoilt it, if it did. */
  spoilt?: Spoilt | undefined
}

/** A stored message; `gone_at` is the change that deleted it. */
export interface Kept extends StoredMessage {
  headers: MessageHeaders
  stored_at: number
  gone_at: number
  by: string
  sent_at: number
  spoilt?: Spoilt | undefined
}

const FOREVER = Number.POSITIVE_INFINITY
/** Sequences of one segment of the archive. */
const SEGMENT = 4_096

/** One stream as the server has it: guards, sequences, deletes, and what a replica that lags still shows. */
export class SimStream {
  readonly log: Kept[] = []
  /** Stores and deletes so far: what a lagging replica has seen is a number of them. */
  changes = 0
  first = 1
  /** How many messages it holds of each 4,096 sequences, the last ones: of all others nothing is left, so that segments are full soon. */
  readonly #kept: number
  /** Subjects' messages in order, and the subjects of each pass. */
  readonly #subjects = new Map<string, Kept[]>()
  readonly #passes = new Map<string, Set<string>>()

  constructor(kept = SEGMENT) {
    this.#kept = kept
    this.first = this.#sequenceOf(0)
  }

  get last(): number {
    return this.log.length === 0 ? 0 : this.#sequenceOf(this.log.length - 1)
  }
  get next(): number {
    return this.#sequenceOf(this.log.length)
  }

  /** Place in the log of the first message at or after a sequence. */
  placeFrom(sequence: number): number {
    const within = Math.max(0, (sequence % SEGMENT) - (SEGMENT - this.#kept))
    return Math.max(0, Math.floor(sequence / SEGMENT) * this.#kept + within - 1)
  }

  /** The message stored under a sequence, deleted or not. */
  was(sequence: number): Kept | undefined {
    const kept = this.log[this.placeFrom(sequence)]
    return kept?.sequence === sequence ? kept : undefined
  }

  /** Stores it, or says that its guard does not hold. */
  store(sent: Sent, about: { time: number; by: string }): PublishResult & { kept?: Kept } {
    const { guard } = sent
    if (guard) {
      const last = this.lastOf(guard.subject)?.sequence ?? 0
      if (last !== guard.sequence) return { kind: 'lost', last }
    }
    const kept: Kept = {
      subject: sent.subject,
      sequence: this.next,
      time: about.time,
      headers: readHeaders(sent.block),
      data: sent.data,
      stored_at: ++this.changes,
      gone_at: FOREVER,
      by: about.by,
      sent_at: sent.sent_at ?? about.time,
      spoilt: sent.spoilt,
    }
    this.log.push(kept)
    const known = this.#subjects.get(sent.subject)
    if (known) known.push(kept)
    else {
      this.#subjects.set(sent.subject, [kept])
      const key = passOf(sent.subject)
      if (key) this.#passes.set(key, (this.#passes.get(key) ?? new Set()).add(sent.subject))
    }
    return { kind: 'stored', sequence: kept.sequence, kept }
  }

  /** False: there was no such message. */
  delete(sequence: number): boolean {
    const kept = this.get(sequence)
    if (!kept) return false
    kept.gone_at = ++this.changes
    let place = this.placeFrom(this.first)
    while (place < this.log.length && this.log[place]?.gone_at !== FOREVER) place += 1
    this.first = this.#sequenceOf(place)
    return true
  }

  get(sequence: number): Kept | undefined {
    const kept = this.was(sequence)
    return kept && !isDeleted(kept) ? kept : undefined
  }

  /** The last message that a filter matches; as it was after so many changes. */
  lastOf(filter: string, changes = FOREVER): Kept | undefined {
    let found: Kept | undefined
    for (const subject of this.#matching(filter)) {
      const kept = this.#subjects.get(subject)?.findLast((one) => one.stored_at <= changes && isThere(one, changes))
      if (kept && kept.sequence > (found?.sequence ?? 0)) found = kept
    }
    return found
  }

  /** The first message at or after a sequence that any of the filters matches. */
  nextOf(filters: readonly string[] | undefined, from: number): Kept | undefined {
    for (let place = this.placeFrom(from); place < this.log.length; place += 1) {
      const kept = this.log[place]
      if (kept && !isDeleted(kept) && (!filters || filters.some((filter) => matches(filter, kept.subject)))) return kept
    }
    return undefined
  }

  #sequenceOf(place: number): number {
    const count = place + 1
    return Math.floor(count / this.#kept) * SEGMENT + (SEGMENT - this.#kept) + (count % this.#kept)
  }

  #matching(filter: string): Iterable<string> {
    if (!filter.includes('*') && !filter.includes('>')) return [filter]
    const key = passOf(filter)
    const known = key && !key.includes('*') && !key.includes('>') ? this.#passes.get(key) : undefined
    const from = key && !key.includes('*') && !key.includes('>') ? (known ?? []) : this.#subjects.keys()
    return [...from].filter((subject) => matches(filter, subject))
  }
}

/** Returns true if the message has been deleted by now. */
export function isDeleted({ gone_at }: Kept): boolean {
  return gone_at !== FOREVER
}

function isThere(kept: Kept, changes: number): boolean {
  return changes === FOREVER ? !isDeleted(kept) : kept.gone_at > changes
}

/** `o.s.id` of a subject or filter of five tokens or more: a filter that ends with `>` means six as well. */
function passOf(subject: string): string | undefined {
  const tokens = subject.split('.')
  return tokens.length >= 5 ? `${tokens[1]}.${tokens[2]}.${tokens[3]}` : undefined
}

const split = new Map<string, string[]>()

function tokensOf(subject: string): string[] {
  let tokens = split.get(subject)
  if (!tokens) {
    if (split.size > 5_000) split.clear()
    tokens = subject.split('.')
    split.set(subject, tokens)
  }
  return tokens
}

/** Whether a subject is one that a filter means. */
export function matches(filter: string, subject: string): boolean {
  if (filter === subject) return true
  const want = tokensOf(filter)
  const have = tokensOf(subject)
  for (let at = 0; at < want.length; at += 1) {
    if (want[at] === '>') return have.length > at
    if (at >= have.length || (want[at] !== '*' && want[at] !== have[at])) return false
  }
  return want.length === have.length
}
