import { type AgentBody, type AgentRecord, agentBody, agentRecord, canonicalJson, HEADER, WIRE_VERSION } from '@passover/schemas'
import { Backoff } from '../clock/backoff.js'
import { machineTiming, type Timing } from '../clock/timing.js'
import { CONTENT_TYPE, decode, encode } from '../codec/codec.js'
import type { Bus } from '../types/bus.js'
import type { Table } from '../types/stores.js'
import type { PublishResult } from '../wire/messages.js'

/** Number of tries, which take some seconds: the replica that answers may lag. */
const TRIES = 10
/** Milliseconds after an event within which its writer stores the record, unless it crashed. */
const UNDER_WAY_MS = 2_000

/** State of an agent in the bucket. */
export interface AgentStanding {
  /** `undefined` if there is none, or if a later version wrote it. */
  record: AgentRecord | undefined
  /** Revision of the record or of its removal; 0 if it never had one. Guards the next write. */
  revision: number
  isUnreadable: boolean
}

/** `untold`: it was not stored, and the last event in the stream may describe a record that is not in force. */
export type AgentKept = 'kept' | 'lost' | 'untold'

/**
 * Writes the agent registry: each change is first an event and then the record, so that the stream alone shows who could do what. The events of two
 * concurrent changes may be in the opposite order of the records; then the second writer publishes the stored record once more
 * (docs/architecture/dispatcher.md#other-duties).
 */
export class AgentRegistry {
  readonly #bus: Bus
  readonly #table: Table<AgentRecord>
  readonly #timing: Timing

  constructor(bus: Bus, table: Table<AgentRecord>, timing: Timing = machineTiming) {
    this.#bus = bus
    this.#table = table
    this.#timing = timing
  }

  async standing(name: string): Promise<AgentStanding> {
    const stored = await this.#table.bytesOf(name)
    if (!stored?.data) return { record: undefined, revision: stored?.revision ?? 0, isUnreadable: false }
    const decoded = decode(stored.data)
    const parsed = decoded.ok ? agentRecord.safeParse(decoded.value) : undefined
    return { record: parsed?.data, revision: stored.revision, isUnreadable: parsed?.data === undefined }
  }

  /**
   * Returns the sequence of the newest event about any agent, 0 if there is none; it guards the next event. `underWay`: the agent's record is not yet
   * what that event says, because its writer published it a moment ago. Not for people.
   */
  async position(name: string): Promise<{ sequence: number; underWay: boolean }> {
    const newest = await this.#bus.journal.newest(this.#bus.subjects.all('agent'))
    if (!newest) return { sequence: 0, underWay: false }
    const { sequence, time, data, headers } = newest
    const decoded = decode(data, headers.get(HEADER.contentType))
    const body = decoded.ok ? agentBody.safeParse(decoded.value) : undefined
    if (!body?.success || body.data.name !== name || this.#bus.now() - time > UNDER_WAY_MS) return { sequence, underWay: false }
    const { record } = await this.standing(name)
    return { sequence, underWay: canonicalJson(record ?? {}) !== canonicalJson(body.data.record ?? {}) }
  }

  /**
   * Publishes the event of a change; without a record, of a removal. With `position` nothing is stored if another event came after it (`lost`), so
   * that writers who decided on what is outdated by now leave nothing in the stream, where these events stay for good.
   */
  tell(name: string, record?: AgentRecord, position?: number): Promise<PublishResult> {
    const body: AgentBody = record ? { v: WIRE_VERSION, name, record } : { v: WIRE_VERSION, name }
    return this.#bus.publish({
      subject: this.#bus.subjects.agent(this.#bus.identity),
      headers: { [HEADER.contentType]: CONTENT_TYPE.msgpack },
      data: encode(body),
      ...(position === undefined ? {} : { guard: { subject: this.#bus.subjects.all('agent'), sequence: position } }),
    })
  }

  /** Writes the published record over the revision that was read before its event. `lost`: another write was faster and is in force. */
  async keep({ record, over }: { record: AgentRecord; over: number }): Promise<AgentKept> {
    if ((await this.#table.update(record.name, record, over)) !== undefined) return 'kept'
    return (await this.#tellWhatStands({ name: record.name, over, told: record })) ? 'lost' : 'untold'
  }

  /** Removes an agent, regardless of concurrent changes and of the version that wrote it. `lost`: others keep changing it. */
  async remove(name: string): Promise<PublishResult> {
    let over = -1
    for (let tries = 0; tries < TRIES; tries++) {
      const found = await this.#newer(name, over)
      if (!found) break
      const told = await this.tell(name)
      if (told.kind !== 'stored' || (await this.#table.delete(name, found.revision))) return told
      over = found.revision
    }
    await this.#tellWhatStands({ name, over, told: undefined })
    return { kind: 'lost' }
  }

  /** Publishes an event for the record in force. Only the compare-and-set shows that the event still matches. Returns false if this fails. */
  async #tellWhatStands({ name, over, told }: { name: string; over: number; told: AgentRecord | undefined }): Promise<boolean> {
    for (let tries = 0; tries < TRIES; tries++) {
      const found = await this.#newer(name, over)
      if (!found) return false
      const { record, revision, isUnreadable } = found
      // The writer of an unreadable record has published its event; or several writers stored the same record.
      if (isUnreadable || (record && told && saysTheSame(record, told))) return true
      if ((await this.tell(name, record)).kind !== 'stored') continue
      const written = record ? (await this.#table.update(name, record, revision)) !== undefined : await this.#table.delete(name, revision)
      if (written) return true
    }
    return false
  }

  /** Reads the state after a revision that is known to be overwritten. Returns `undefined` if no replica that answered has it yet. */
  async #newer(name: string, over: number): Promise<AgentStanding | undefined> {
    const backoff = new Backoff(this.#timing)
    for (let tries = 0; tries < TRIES; tries++) {
      const found = await this.standing(name)
      if (found.revision > over) return found
      await backoff.wait()
    }
    return undefined
  }
}

function saysTheSame(one: AgentRecord, other: AgentRecord): boolean {
  return canonicalJson({ ...one, updated_at: 0 }) === canonicalJson({ ...other, updated_at: 0 })
}
