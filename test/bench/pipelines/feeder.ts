import { randomBytes } from 'node:crypto'
import { setPriority } from 'node:os'
import { type Bus, encode, openBus, type StreamSubscription, splitContext } from '@passover/bus'
import { admit, completeOutput, countToken, packControl, packOutput, packSequences, requestDigest } from '@passover/core'
import {
  type AgentRecord,
  HEADER,
  MAX_ACKNOWLEDGED,
  makeId,
  makeInstance,
  type Part,
  type PassKey,
  type RequestControl,
  SYSTEM,
  WIRE_VERSION,
} from '@passover/schemas'
import { BUSY } from '../../support/builders/busy-policy.js'
import { serveRole } from '../measure/harness.js'

/**
 * Writes the messages of whole passes straight into the stream, as originator, dispatcher and worker would and as fast as the server takes
 * them: what the audit, the archive and the deleter do with millions of them is then a matter of hours less.
 */
export interface Feed {
  passes: number
  /** Passes begun a second, at most. */
  rate: number
}

/** Passes that are between their request and their return. */
const UNDER_WAY = 1_024
const PACE_MS = 5
const MOST_UNSURE = 1_000
const ACKNOWLEDGE_MS = 1_000
const PARTIES = { originator: 'alice', subagent: 'audit' }
const CONTEXT = { objective: 'x'.repeat(300), session_id: 'bench', directory: '/bench', messages: [], files: [] }
const random = { bytes: (n: number) => randomBytes(n) }

function agent(name: string): AgentRecord {
  return { name, roles: { originates: 'always', subagent: true }, registered_by: 'bench', updated_at: 1 }
}

class Feeder {
  private readonly parts: Part[] = splitContext(CONTEXT as never).parts
  private readonly digest = requestDigest(this.requestOf('any'), this.parts)
  private readonly instance = makeInstance(random)
  private begun = 0
  private ended = 0
  private readonly returned: number[] = []
  private failed: Error | undefined
  /** What the server did not answer for may be stored or not: such a pass is left as it is. */
  private unsure = 0
  private wake: () => void = () => undefined

  private constructor(private readonly bus: Bus) {}

  static async open(servers: string): Promise<{ feeder: Feeder; reader: StreamSubscription }> {
    const bus = await openBus({ servers: [servers], identity: 'passover' })
    const feeder = new Feeder(bus)
    // As everywhere: it stays for good, and the stream's first sequence with it.
    const record = agent(PARTIES.originator)
    await bus.publish({ subject: bus.subjects.agent(SYSTEM), data: encode({ v: WIRE_VERSION, name: record.name, record }) })
    const { last } = await bus.bounds()
    const filters = [bus.subjects.all('request')]
    const reader = await bus.follow({ filters, from: last + 1, headers_only: true }, ({ sequence, time, headers }) => {
      const id = headers.get(HEADER.id)
      if (id !== undefined) feeder.admit({ ...PARTIES, id }, sequence, time)
    })
    setInterval(() => feeder.acknowledge(), ACKNOWLEDGE_MS)
    return { feeder, reader }
  }

  async feed({ passes, rate }: Feed): Promise<void> {
    const since = performance.now()
    const first = this.begun
    while (this.begun - first < passes) {
      if (this.failed) throw this.failed
      const due = Math.min(passes, Math.floor(((performance.now() - since) / 1000) * rate) + 1)
      while (this.begun - first < due && this.begun - this.ended < UNDER_WAY) this.ask()
      await new Promise((paced) => setTimeout(paced, PACE_MS))
    }
    while (this.ended < this.begun && !this.failed) await new Promise<void>((one) => (this.wake = one))
    if (this.failed) throw this.failed
  }

  private requestOf(id: string): RequestControl {
    const { originator, subagent } = PARTIES
    return { id, originating_agent_id: originator, subagent_id: subagent, reason: 'bench', return_required: true }
  }

  private ask(): void {
    this.begun++
    const { subjects } = this.bus
    const id = makeId(this.instance, this.bus.now(), random)
    const headers = { [HEADER.id]: id, [HEADER.digest]: this.digest }
    const data = encode({ v: 1, request: this.requestOf(id), parts: this.parts, session_id: CONTEXT.session_id })
    this.store({ subject: subjects.request(PARTIES.subagent, PARTIES.originator), headers, data }, () => undefined)
  }

  private admit(key: PassKey, sequence: number, time: number): void {
    const { subjects } = this.bus
    const { parts, digest } = this
    const admission = admit({
      request: this.requestOf(key.id),
      subject: key,
      request_sequence: sequence,
      requested_at: time,
      now: time + 1,
      parts,
      digest,
      session_id: CONTEXT.session_id,
      reply_type: 'msgpack',
      agents: { originator: agent(key.originator), subagent: agent(key.subagent), open: true },
      policy: BUSY,
      id_window_ms: 3_600_000,
      return_id: `return-${key.id}`,
    })
    if (admission.kind !== 'admit') throw new Error(`not admitted: ${JSON.stringify(admission)}`)
    const { control } = admission
    const headers = {
      [HEADER.digest]: digest,
      [HEADER.request]: String(sequence),
      [HEADER.requestedAt]: String(time),
      [HEADER.session]: countToken(control) ?? '',
      [HEADER.timeout]: String(control.timeout_ms),
    }
    const data = encode({ v: 1, control: packControl(control, 'work'), parts })
    const guard = { subject: subjects.journal(key), sequence: 0 }
    this.store({ subject: subjects.work(key, control.priority), headers, data, guard }, (work) => {
      const now = this.bus.now()
      const output = completeOutput('done', { control, attempt: 1, started_at: now, completed_at: now })
      const brief = packOutput(output as never, key)
      this.store(
        {
          subject: subjects.return(key, key.subagent),
          headers: { [HEADER.attempt]: '1', [HEADER.status]: output.status },
          data: encode(brief ? { v: 1, brief } : { v: 1, output }),
          guard: { subject: subjects.journal(key), sequence: work },
        },
        (returned) => {
          this.returned.push(returned)
          this.end()
        },
      )
    })
  }

  private store(message: Parameters<Bus['publish']>[0], stored: (sequence: number) => void): void {
    void this.bus.publish(message).then((outcome) => {
      if (outcome.kind === 'stored') return stored(outcome.sequence)
      if (outcome.kind === 'unknown' && ++this.unsure <= MOST_UNSURE) return this.end()
      this.failed ??= new Error(`${message.subject} was not stored: ${JSON.stringify(outcome)}`)
      this.wake()
    })
  }

  private end(): void {
    this.ended++
    this.wake()
  }

  /** As the originator's process does, once a second. */
  private acknowledge(): void {
    const returns = this.returned.splice(0, MAX_ACKNOWLEDGED).sort((a, b) => a - b)
    if (returns.length === 0) return
    const data = encode({ v: 1, returns: packSequences(returns) })
    this.store({ subject: this.bus.subjects.acknowledged(PARTIES.originator), data }, () => undefined)
  }
}

await serveRole<{ servers: string; niceness?: number }>(async ({ servers, niceness }) => {
  setPriority(niceness ?? 0)
  const { feeder } = await Feeder.open(servers)
  return async (command) => {
    await feeder.feed(command as unknown as Feed)
    return undefined
  }
})
