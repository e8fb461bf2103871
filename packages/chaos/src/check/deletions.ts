import { decode } from '@msgpack/msgpack'
import { idInBody } from './step.js'
import type { Judgement, PassFound, StoredMessage, Violation } from './types.js'
import type { Checked } from './verdict.js'

/** Messages that were observed to be deleted from the stream. */
export interface Removal {
  /** Last sequence of the stream at the previous poll, when they were still there; 0 if this is not known. */
  last: number
  /** Server time in milliseconds of the observation. */
  at: number
  sequences: readonly number[]
}

export interface DeletionRules {
  id_window_ms: number
  /** Agents with durable returns. Their unacknowledged returns must stay in the stream. */
  durable: readonly string[]
}

/** Refusal of a request under an id that contains the request's sequence. */
const REFUSED = /^return\.[^.]+\.[^.]+\.(bad-\d{9,})\.passover$/
/** Steps of the dispatcher, each of which could begin a pass without a journal. */
const FIRST_STEPS = /^(?:held|work)\.|^return\..*\.passover$/
const STEPS = ['held', 'work', 'fence', 'return']

/** Number of id windows after the end of a pass during which a new request for the same id keeps it in the stream. */
const REQUEST_WINDOWS = 8

/**
 * Checks retention: a pass that is open, undelivered or young stays in the stream, and its return is deleted last.
 * What agents store about a pass after its end, such as a late result, keeps nothing: it is deleted with the segment that it is in.
 */
export function checkDeletions(
  records: readonly StoredMessage[],
  { removals, judgement }: { removals: readonly Removal[]; judgement: Judgement },
  rules: DeletionRules,
): Checked {
  const checking = new Deletions(records, judgement, rules)
  for (const removal of removals) checking.take(removal)
  return checking.conclude()
}

class Deletions {
  readonly #passes: Judgement['passes']
  readonly #rules: DeletionRules
  readonly #keyOf = new Map<number, string>()
  readonly #messages = new Map<string, StoredMessage[]>()
  /** Time at which each return was acknowledged by its originator. */
  readonly #taken = new Map<number, number>()
  readonly #gone = new Map<number, Removal>()
  readonly #violations: Violation[] = []

  constructor(records: readonly StoredMessage[], { passes }: Judgement, rules: DeletionRules) {
    this.#passes = passes
    this.#rules = rules
    const refused = new Set(records.flatMap(({ subject }) => REFUSED.exec(subject)?.[1] ?? []))
    for (const record of records) {
      const key = keyOf(record, refused)
      if (key !== undefined) {
        this.#keyOf.set(record.sequence, key)
        this.#messages.set(key, [...(this.#messages.get(key) ?? []), record])
      }
      for (const sequence of acknowledgedIn(record)) if (!this.#taken.has(sequence)) this.#taken.set(sequence, record.time)
    }
  }

  take(removal: Removal): void {
    for (const sequence of removal.sequences) this.#gone.set(sequence, removal)
    for (const key of new Set(removal.sequences.flatMap((sequence) => this.#keyOf.get(sequence) ?? []))) this.#judge(key, removal)
  }

  #judge(key: string, removal: Removal): void {
    const found = this.#passes.get(key)
    // For example a late output for a pass that never existed.
    if (found?.begun === undefined && !found?.requests.length) return
    const { ended } = found
    if (!ended || ended.time > removal.at) {
      this.#broken(`${key}: a message of it was deleted while it was open`)
      return
    }
    this.#aged(key, removal)
    this.#delivered(found, removal)
    this.#inOrder(found, removal)
  }

  /** Checks that the youngest message that keeps the pass is at least two id windows old. */
  #aged(key: string, { last, at }: Removal): void {
    const there = this.#keeping(key, at).filter(({ sequence }) => sequence <= last)
    const age = at - Math.max(0, ...there.map(({ time }) => time))
    if (there.length > 0 && age < 2 * this.#rules.id_window_ms) this.#broken(`${key}: deleted ${age} ms after its youngest message`)
  }

  #delivered({ key, ended }: PassFound, { at }: Removal): void {
    const [originator = ''] = key.split('/')
    if (!ended || !this.#rules.durable.includes(originator)) return
    const taken = this.#taken.get(ended.sequence)
    if (taken === undefined || taken > at) this.#broken(`${key}: deleted before ${originator} had taken its return`)
  }

  /** Checks that the return is deleted last: after a crash in between, the remaining journal must not satisfy any guard. */
  #inOrder({ key, ended }: PassFound, { last, at }: Removal): void {
    if (!ended || !this.#gone.has(ended.sequence)) return
    const left = this.#keeping(key, at).filter(({ sequence }) => !this.#gone.has(sequence) && sequence <= last)
    if (left.length > 0)
      this.#broken(`${key}: its return was deleted, and ${left.map(({ sequence }) => sequence).join(', ')} still stood there`)
  }

  /** Returns the messages that keep an ended pass in the stream: all up to its return, and later ones that could begin it again. */
  #keeping(key: string, at: number): StoredMessage[] {
    const ended = this.#passes.get(key)?.ended
    const messages = this.#messages.get(key) ?? []
    if (!ended) return messages
    const requestsKeepIt = at < ended.time + REQUEST_WINDOWS * this.#rules.id_window_ms
    return messages.filter(({ sequence, subject }) => {
      if (sequence <= ended.sequence) return true
      return subject.startsWith('request.') ? requestsKeepIt : FIRST_STEPS.test(subject)
    })
  }

  #broken(what: string): void {
    this.#violations.push({ promise: 'P4', what })
  }

  conclude(): Checked {
    const keys = new Set([...this.#gone.keys()].flatMap((sequence) => this.#keyOf.get(sequence) ?? []))
    const counts = { 'messages deleted': this.#gone.size, 'passes deleted': keys.size, 'returns taken': this.#taken.size }
    return { counts: { P4: counts }, violations: this.#violations }
  }
}

/** Returns the pass that a message belongs to. A request refused under an id of its own belongs to that id. */
function keyOf(record: StoredMessage, refused: ReadonlySet<string>): string | undefined {
  const [kind = '', a = '', b = '', id = '', ...rest] = record.subject.split('.')
  if (kind === 'request') {
    const apart = `bad-${String(record.sequence).padStart(9, '0')}`
    if (refused.has(apart)) return `${b}/${a}/${apart}`
    const named = record.header('Passover-Id') ?? idInBody(record.data)
    return named === undefined ? undefined : `${b}/${a}/${named}`
  }
  if (STEPS.includes(kind) ? rest.length === 1 : ['event', 'decision'].includes(kind) && rest.length === 2) return `${a}/${b}/${id}`
  return undefined
}

/** Returns the sequences of the returns that an originator acknowledges. They are encoded as differences, except the first. */
function acknowledgedIn({ subject, data }: StoredMessage): number[] {
  if (!subject.startsWith('acknowledged.')) return []
  try {
    const { returns = [] } = decode(data) as { returns?: number[] }
    let at = 0
    return returns.map((step) => (at += step))
  } catch {
    return []
  }
}
