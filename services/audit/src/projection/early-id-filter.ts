import type { Bus } from '@passover/bus'
import type { Clock } from '@passover/core'
import { EVENT_KINDS, type Fact, type PassKey, SYSTEM } from '@passover/schemas'
import type { Logger } from 'pino'
import { hashPass, type PassHash } from '../runtime/pass-hash.js'
import { readBefore } from '../runtime/read-before.js'

/** Size of the filter: 8 MB. The rate of false positives is about 1 in 1,000 with a million ids, and 1 in 15 with ten million. */
const BITS = 2 ** 26
const RETRY_DELAY_MS = 1_000

/**
 * Passes that may have stored messages which this process has not read or has dropped from memory, so that their first step alone is not
 * enough to build their record. A Bloom filter holds any number of ids in constant memory; a false positive costs one unnecessary read of a pass.
 */
export class EarlyIdFilter {
  readonly #seed: number
  #bits: Uint32Array | undefined
  #scanning = false
  #stopped = false
  readonly #hashed: PassHash = { hash: 0, check: 0 }

  /** `seed` is specific to this process, so that agents cannot choose ids that fill the filter. */
  constructor(seed: number) {
    this.#seed = seed
  }

  add(key: PassKey): void {
    this.#bits ??= new Uint32Array(BITS / 32)
    hashPass(key, this.#seed, this.#hashed)
    const { hash, check } = this.#hashed
    for (const bit of [hash % BITS, check % BITS]) this.#bits[bit >>> 5] = (this.#bits[bit >>> 5] ?? 0) | (1 << (bit & 31))
  }

  /** True if the pass may be in the filter. Always true during `scan`, because earlier messages are not known yet. */
  has(key: PassKey): boolean {
    if (this.#scanning) return true
    if (!this.#bits) return false
    hashPass(key, this.#seed, this.#hashed)
    const { hash, check } = this.#hashed
    const isSet = (bit: number) => (((this.#bits?.[bit >>> 5] ?? 0) >>> (bit & 31)) & 1) === 1
    return isSet(hash % BITS) && isSet(check % BITS)
  }

  /** Adds passes with messages stored before `until`, the sequence where this process starts to read. */
  async scan({ bus, clock, log }: { bus: Bus; clock: Clock; log: Logger }, until: number): Promise<void> {
    this.#scanning = true
    while (!this.#stopped) {
      try {
        await this.#read(bus, until)
        this.#scanning = false
        return
      } catch (error) {
        log.warn({ err: error }, 'earlier messages of passes not read; retrying')
        await new Promise<void>((done) => clock.after(RETRY_DELAY_MS, done))
      }
    }
  }

  /** Stops retrying a failed scan. */
  stop(): void {
    this.#stopped = true
  }

  #read(bus: Bus, until: number): Promise<void> {
    const kinds = EVENT_KINDS.filter((kind) => kind !== 'progress')
    const { subjects } = bus
    const filters = [
      ...kinds.map((kind) => subjects.allEvents(kind)),
      subjects.all('decision'),
      subjects.all('fence'),
      subjects.all('return'),
    ]
    return readBefore(bus, { filters, until, headers_only: true }, (_stored, fact) => {
      if (isOfParties(fact)) this.add(fact.key)
    })
  }
}

/** True if a party of the pass stored the message. The system stores messages about a pass only after its first step. */
function isOfParties(fact: Fact): fact is Fact & { key: PassKey } {
  return fact.type === 'event' || fact.type === 'decision' || (fact.type === 'step' && fact.by !== SYSTEM)
}
