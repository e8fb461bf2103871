import { type AgentBody, type AgentRecord, agentRecord, canonicalJson, HEADER, WIRE_VERSION } from '@passover/schemas'
import { Backoff } from '../clock/backoff.js'
import { machineTiming, type Timing } from '../clock/timing.js'
import { CONTENT_TYPE, decode, encode } from '../codec/codec.js'
import type { Bus } from '../types/bus.js'
import type { Table } from '../types/stores.js'
import type { PublishResult } from '../wire/messages.js'

/** Some seconds: a replica that is asked may be behind. */
const TRIES = 10

/** What the bucket has of an agent. */
export interface AgentStanding {
  /** Undefined: none, or one that a later version wrote. */
  record: AgentRecord | undefined
  /** Of the record, or of its removal; 0: it never had one. What is written over it is written over nothing else. */
  revision: number
  isUnreadable: boolean
}

/** `untold`: it is not kept, and the stream's last word may be of what does not stand. */
export type AgentKept = 'kept' | 'lost' | 'untold'

/**
 * The registry: each change is an event, and then the record, so that the stream alone tells who could do what. Of two concurrent changes of
 * an agent the events may be in the other order than the records: the second writer publishes the stored record once more
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

  /** The event of a change. Without a record: taken out. */
  tell(name: string, record?: AgentRecord): Promise<PublishResult> {
    const body: AgentBody = record ? { v: WIRE_VERSION, name, record } : { v: WIRE_VERSION, name }
    return this.#bus.publish({
      subject: this.#bus.subjects.agent(this.#bus.identity),
      headers: { [HEADER.contentType]: CONTENT_TYPE.msgpack },
      data: encode(body),
    })
  }

  /** Writes the record that was told over what stood before its event; `lost`: somebody else was faster, and that stands. */
  async keep({ record, over }: { record: AgentRecord; over: number }): Promise<AgentKept> {
    if ((await this.#table.update(record.name, record, over)) !== undefined) return 'kept'
    return (await this.#tellWhatStands({ name: record.name, over, told: record })) ? 'lost' : 'untold'
  }

  /** Takes an agent out, whoever changes it meanwhile, and whatever version wrote it. `lost`: others go on changing it. */
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

  /** That what was told stands yet only its compare-and-set can tell. False: it is not told. */
  async #tellWhatStands({ name, over, told }: { name: string; over: number; told: AgentRecord | undefined }): Promise<boolean> {
    for (let tries = 0; tries < TRIES; tries++) {
      const found = await this.#newer(name, over)
      if (!found) return false
      const { record, revision, isUnreadable } = found
      // Who wrote it has told it, in words that are not known here; or several say the same at once.
      if (isUnreadable || (record && told && saysTheSame(record, told))) return true
      if ((await this.tell(name, record)).kind !== 'stored') continue
      const written = record ? (await this.#table.update(name, record, revision)) !== undefined : await this.#table.delete(name, revision)
      if (written) return true
    }
    return false
  }

  /** What stands after a revision that somebody is known to have written over; undefined: no replica that was asked has it yet. */
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
