import { type Bus, CONTENT_TYPE, decode, encode, type StoredMessage } from '@passover/bus'
import type { Clock } from '@passover/core'
import { cut } from '@passover/core'
import { type Fact, HEADER, keyText, type PassKey, SYSTEM, violationBody, WIRE_VERSION } from '@passover/schemas'
import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import type { LoadedPass } from '../pass/load-pass.js'

const RETRY_DELAY_MS = 1000
const REPLICA_DELAY_MS = 50
const MAX_MESSAGE_LENGTH = 1024
/** Number of unrecorded violations above which the reader waits, so that agents cannot cause them faster than they are recorded. */
const MAX_WAITING = 1024

/** Maximum number of passes whose recorded violations are cached while a restarted process reads their messages again. */
const MAX_REMEMBERED_PASSES = 1024

/** Recorded violations of one pass: the sequences of the messages concerned (`of`), read from `from` up to `read`. */
interface RecordedViolations {
  from: number
  read: number
  of: Set<number>
}

/**
 * Records each impossible message once as `event.….violation.passover`. The event is guarded on its own subject, so that only one of several
 * replicas, or of a process and its successor, publishes it (I5).
 */
export class Violations {
  readonly #bus: Bus
  readonly #clock: Clock
  readonly #log: Logger
  readonly #chains = new Map<string, Promise<void>>()
  readonly #waiting = new Set<number>()
  readonly #told = new LRUCache<string, RecordedViolations>({ max: MAX_REMEMBERED_PASSES })
  #waiters: (() => void)[] = []
  #stopped = false
  published = 0

  constructor(bus: Bus, clock: Clock, log: Logger) {
    this.#bus = bus
    this.#clock = clock
    this.#log = log
  }

  /** Lowest sequence of a message whose violation is not recorded yet. */
  get lowest(): number | undefined {
    let lowest: number | undefined
    for (const sequence of this.#waiting) if (lowest === undefined || sequence < lowest) lowest = sequence
    return lowest
  }

  /** Returns a promise if the reader must wait until fewer violations are pending. */
  backpressure(): Promise<void> | undefined {
    return this.#waiting.size > MAX_WAITING && !this.#stopped ? new Promise((done) => this.#waiters.push(done)) : undefined
  }

  /** Records that the message at `sequence` is impossible. Violations of one pass are recorded in the order of the calls. */
  report(key: PassKey, sequence: number, what: string): void {
    if (this.#waiting.has(sequence)) return
    this.#waiting.add(sequence)
    const text = keyText(key)
    const turn = (this.#chains.get(text) ?? Promise.resolve()).then(() => this.#untilRecorded(key, sequence, cut(what, MAX_MESSAGE_LENGTH)))
    this.#chains.set(text, turn)
    void turn.then(() => {
      if (this.#chains.get(text) === turn) this.#chains.delete(text)
    })
  }

  /**
   * Records the impossible messages of a reloaded pass, except those already recorded. If the pass was deleted from the stream, so were its
   * violation events, and only the messages read from the archive show them.
   */
  reportLoaded({ memory, messages }: Pick<LoadedPass, 'memory' | 'messages'>): void {
    const recorded = new Set(messages.flatMap(({ stored, fact }) => (isViolation(fact) ? [violatedBy(stored)] : [])))
    for (const { sequence, what } of memory.ignored) {
      if (recorded.has(sequence)) continue
      if (memory.journal.state === 'none') this.reportOfNone(memory.key, sequence, what)
      else this.report(memory.key, sequence, what)
    }
  }

  /** Records that a message about a pass without a first step is impossible. */
  reportOfNone(key: PassKey, sequence: number, what: string): void {
    this.report(key, sequence, what.startsWith('a return') ? `E020: a return for an unknown pass (${what})` : what)
  }

  /** Returns the key for the violation of a message that belongs to no pass. */
  nameless(sequence: number): PassKey {
    return { originator: SYSTEM, subagent: SYSTEM, id: this.#bus.subjects.badId(sequence) }
  }

  stop(): void {
    this.#stopped = true
    this.#release()
  }

  async settled(): Promise<void> {
    await Promise.all(this.#chains.values())
  }

  async #untilRecorded(key: PassKey, sequence: number, what: string): Promise<void> {
    while (!this.#stopped) {
      try {
        const outcome = await this.#record(key, sequence, what)
        if (outcome === 'recorded') {
          this.#waiting.delete(sequence)
          if (this.#waiting.size <= MAX_WAITING / 2) this.#release()
          return
        }
        await this.#pause(outcome === 'raced' ? REPLICA_DELAY_MS : RETRY_DELAY_MS)
      } catch (error) {
        this.#log.warn({ pass: keyText(key), sequence, err: error }, 'violation not recorded')
        await this.#pause(RETRY_DELAY_MS)
      }
    }
  }

  #release(): void {
    for (const done of this.#waiters.splice(0)) done()
  }

  async #record(key: PassKey, sequence: number, what: string): Promise<'recorded' | 'raced' | 'refused'> {
    const subject = this.#bus.subjects.event(key, 'violation', SYSTEM)
    const last = await this.#bus.journal.last(subject)
    if (last && (await this.#isRecorded(key, sequence, last))) return 'recorded'
    const outcome = await this.#bus.publish({
      subject,
      headers: { [HEADER.contentType]: CONTENT_TYPE.msgpack },
      data: encode({ v: WIRE_VERSION, sequence, what }),
      guard: { subject, sequence: last?.sequence ?? 0 },
    })
    if (outcome.kind === 'refused') return 'refused'
    if (outcome.kind !== 'stored') return 'raced'
    this.published++
    this.#log.warn({ pass: keyText(key), sequence, what }, 'violation')
    return 'recorded'
  }

  /** Checks the newest violation of the pass. If that concerns a later message, also reads the earlier ones, each once. */
  async #isRecorded(key: PassKey, sequence: number, last: StoredMessage): Promise<boolean> {
    const newest = this.#bus.subjects.isTrusted(last) ? violatedBy(last) : undefined
    if (newest === sequence) return true
    if (newest !== undefined && newest < sequence) return false
    const text = keyText(key)
    let told = this.#told.get(text)
    if (!told || told.from > sequence) {
      told = { from: sequence, read: sequence, of: new Set() }
      this.#told.set(text, told)
    }
    while (told.read < last.sequence) {
      const stored = await this.#bus.journal.first(last.subject, told.read + 1)
      if (!stored) break
      told.read = stored.sequence
      const of = this.#bus.subjects.isTrusted(stored) ? violatedBy(stored) : undefined
      if (of !== undefined) told.of.add(of)
    }
    return told.of.has(sequence)
  }

  async #pause(ms: number): Promise<void> {
    await new Promise<void>((done) => this.#clock.after(ms, done))
  }
}

function isViolation(fact: Fact): boolean {
  return fact.type === 'event' && fact.kind === 'violation' && fact.sender === SYSTEM
}

/** Returns the sequence of the message that a stored violation concerns. */
function violatedBy(stored: StoredMessage): number | undefined {
  const decoded = decode(stored.data, stored.headers.get(HEADER.contentType))
  const body = decoded.ok ? violationBody.safeParse(decoded.value) : undefined
  return body?.data?.sequence
}
