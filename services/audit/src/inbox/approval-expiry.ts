import { CONTENT_TYPE, encode } from '@passover/bus'
import type { CheckSchema } from '@passover/core'
import { type ExpiredBody, HEADER, keyText, SYSTEM, WIRE_VERSION } from '@passover/schemas'
import type { Logger } from 'pino'
import { type LoadDeps, loadPass } from '../pass/load-pass.js'
import { buildCheckedRecord } from '../records/build-record.js'
import type { Inbox, WaitingEntry } from './inbox.js'

export interface ApprovalExpiryDeps extends LoadDeps {
  inbox: Inbox
  log: Logger
  check: CheckSchema | undefined
}

/** Milliseconds to wait after the expiry, because a decision made in time may still be in transit. */
const GRACE_MS = 1_000
/** Maximum number of passes loaded per run. */
const MAX_PER_RUN = 64

/**
 * Publishes an `expired` event for an output that was not released in time. From then on, the record of the pass depends on the stream alone (I2).
 * The event is guarded on its own subject, so only one of several replicas publishes it.
 */
export class ApprovalExpiry {
  readonly #deps: ApprovalExpiryDeps
  readonly #said = new WeakSet<WaitingEntry>()
  #looking = false

  constructor(deps: ApprovalExpiryDeps) {
    this.#deps = deps
  }

  async look(): Promise<void> {
    if (this.#looking) return
    this.#looking = true
    for (const entry of this.#over()) {
      try {
        if (await this.#say(entry)) this.#said.add(entry)
      } catch (error) {
        this.#deps.log.debug({ pass: keyText(entry.key), err: error }, 'expiry of the approval not recorded yet')
      }
    }
    this.#looking = false
  }

  #over(): WaitingEntry[] {
    const found: WaitingEntry[] = []
    for (const entry of this.#deps.inbox.expired(this.#deps.bus.now() - GRACE_MS)) {
      if (!this.#said.has(entry)) found.push(entry)
      if (found.length === MAX_PER_RUN) break
    }
    return found
  }

  /** Returns true if the event is stored, or if none is necessary. */
  async #say(entry: WaitingEntry): Promise<boolean> {
    const { bus, rules, inbox, check } = this.#deps
    const { key } = entry
    const loaded = await loadPass(this.#deps, key, { up_to: (await bus.bounds()).last })
    const { record } = await buildCheckedRecord(loaded.memory, rules, check)
    if (record.awaits?.item !== 'return' || record.awaits.expires_at > bus.now()) {
      inbox.drop(entry)
      return true
    }
    const subject = bus.subjects.event(key, 'expired', SYSTEM)
    const body: ExpiredBody = { v: WIRE_VERSION, item: 'return' }
    const headers = { [HEADER.id]: key.id, [HEADER.contentType]: CONTENT_TYPE.msgpack }
    const outcome = await bus.publish({ subject, headers, data: encode(body), guard: { subject, sequence: 0 } })
    return outcome.kind === 'stored' || outcome.kind === 'lost'
  }
}
