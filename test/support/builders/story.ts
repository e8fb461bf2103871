import { type Bus, CONTENT_TYPE, encode, splitContext } from '@passover/bus'
import {
  type EffectivePolicy,
  type EventKind,
  HEADER,
  keyText,
  type Part,
  type PassError,
  type PassKey,
  type Priority,
  type WorkControl,
  type WorkOutput,
} from '@passover/schemas'
import { context, minimalControl, minimalOutput, policy } from './examples.js'

export interface StoryOptions {
  originator?: string
  subagent?: string
  session_id?: string
  /** Its root's, where that is another one. */
  counted_session?: string
  reason?: string
  timeout_ms?: number
  policy?: Partial<EffectivePolicy>
  parent?: PassKey
  /** Of its request and work; else those of an example. */
  parts?: Part[]
}

interface Step {
  kind: 'held' | 'work' | 'fence' | 'return'
  by: string
  body?: unknown
  headers?: Partial<Record<string, string>>
  /** False: published without a guard, as a dishonest client can. */
  guarded?: boolean
}

const DIGEST = 'd'.repeat(64)

/**
 * Publishes the messages of one pass by hand, each step guarded on the one before, as dispatchers, workers and people would.
 * Every method gives the sequence of what was stored, and fails when it was not.
 */
export class Story {
  readonly key: PassKey
  readonly sequences: number[] = []
  #last = 0
  #request: { sequence: number; time: number } | undefined
  readonly #bus: Bus
  readonly #options: StoryOptions

  constructor(bus: Bus, id: string, options: StoryOptions = {}) {
    this.#bus = bus
    this.#options = options
    this.key = { originator: options.originator ?? 'alice', subagent: options.subagent ?? 'audit', id }
  }

  async request(): Promise<number> {
    const { originator, subagent, id } = this.key
    const { parent } = this.#options
    const request = {
      ...minimalControl,
      id,
      originating_agent_id: originator,
      subagent_id: subagent,
      reason: this.#reason,
      priority: 'medium',
      ...(parent ? { parent: { ...parent, return_id: `return-${parent.id}`, proof: 1 } } : {}),
    }
    const parts = this.#options.parts ?? splitContext({ ...context, session_id: this.session }).parts
    const sequence = await this.#store({
      subject: this.#bus.subjects.request(subagent, originator),
      headers: { [HEADER.id]: id, [HEADER.digest]: DIGEST, [HEADER.contentType]: CONTENT_TYPE.msgpack },
      data: encode({ v: 1, request, parts, session_id: this.session }),
    })
    const time = (await this.#bus.journal.message(sequence))?.time ?? 0
    this.#request ??= { sequence, time }
    return sequence
  }

  held(expires_ms = 60_000): Promise<number> {
    return this.#step({
      kind: 'held',
      by: 'passover',
      body: { v: 1, control: this.control(), expires_ms },
      headers: { [HEADER.expires]: String(expires_ms) },
    })
  }

  work(priority: Priority = 'medium'): Promise<number> {
    const headers = { [HEADER.timeout]: String(this.control().timeout_ms) }
    return this.#step({
      kind: 'work',
      by: priority,
      body: { v: 1, control: this.control(), parts: this.#options.parts ?? splitContext(context).parts },
      headers,
    })
  }

  fence(attempt: number, guarded = true): Promise<number> {
    return this.#step({
      kind: 'fence',
      by: this.key.subagent,
      headers: { [HEADER.attempt]: String(attempt), [HEADER.nonce]: `n${attempt}` },
      guarded,
    })
  }

  /** A worker's return. */
  returns(
    change: Partial<WorkOutput> | Record<string, unknown> = {},
    options: { attempt?: number; guarded?: boolean } = {},
  ): Promise<number> {
    const { attempt = 1, guarded = true } = options
    const output = { ...this.output(), ...change }
    const headers = { [HEADER.attempt]: String(attempt), [HEADER.status]: String(output.status) }
    return this.#step({ kind: 'return', by: this.key.subagent, body: { v: 1, output }, headers, guarded })
  }

  /** The system's return: refusal, time-out, crash, cancel. */
  ends(error: PassError): Promise<number> {
    return this.#step({
      kind: 'return',
      by: 'passover',
      body: { v: 1, error },
      headers: { [HEADER.attempt]: '0', [HEADER.code]: error.code },
    })
  }

  decides(item: string, person: string, verdict: 'approve' | 'deny', digest = DIGEST): Promise<number> {
    return this.#store({
      subject: this.#bus.subjects.decision(this.key, item, person),
      headers: { [HEADER.verdict]: verdict, [HEADER.digest]: digest, [HEADER.contentType]: CONTENT_TYPE.msgpack },
      data: encode({ v: 1, verdict, digest, reason: 'because' }),
    })
  }

  event(kind: EventKind, sender: string, body: Record<string, unknown> = {}): Promise<number> {
    return this.#store({
      subject: this.#bus.subjects.event(this.key, kind, sender),
      headers: { [HEADER.contentType]: CONTENT_TYPE.msgpack },
      data: encode({ v: 1, ...body }),
    })
  }

  applied(by = 'maria'): Promise<number> {
    return this.event('applied', by, { applied_by: by, applied_at: 1_800_000_000_000, applied: ['src/sum.ts'], rejected: [] })
  }

  /** request, work, return: the shortest life. */
  async whole(change: Partial<WorkOutput> = {}): Promise<this> {
    await this.request()
    await this.work()
    await this.returns(change)
    return this
  }

  get session(): string {
    return this.#options.session_id ?? 'session-1'
  }

  get #reason(): string {
    return this.#options.reason ?? 'review_changes'
  }

  control(): WorkControl {
    const { originator, subagent, id } = this.key
    const { timeout_ms = 30_000, parent } = this.#options
    return {
      id,
      originating_agent_id: originator,
      subagent_id: subagent,
      reason: this.#reason,
      priority: 'medium',
      timeout_ms,
      return_required: true,
      auto_apply_on_success: false,
      constraints: [],
      digest: DIGEST,
      request_sequence: this.#request?.sequence ?? 1,
      requested_at: this.#request?.time ?? 0,
      return_id: `return-${id}`,
      chain_depth: parent ? 2 : 1,
      max_chain_depth: 3,
      ancestors: [originator],
      origination_chain: [{ agent_id: originator, timestamp: this.#request?.time ?? 0, action: 'initiated' }],
      root: parent ?? this.key,
      ...(parent ? { parent } : {}),
      rights: { can_modify_files: false, can_run_tools: true, constraints: [] },
      policy: { ...policy, ...this.#options.policy },
      policy_name: 'default',
      policy_override: false,
      policy_version: 0,
      max_attempts: 3,
      lease_ms: 5_000,
      session_id: this.session,
      ...(this.#options.counted_session === undefined ? {} : { counted_session: this.#options.counted_session }),
      context_bytes: 100,
      reply_type: 'msgpack',
    }
  }

  output(): WorkOutput {
    const { originator, subagent, id } = this.key
    const own = {
      work_id: id,
      subagent_id: subagent,
      originating_agent_id: originator,
      return_to: originator,
      status: 'completed' as const,
    }
    return { ...minimalOutput, ...own, metadata: { ...minimalOutput.metadata, pass_over_id: id, started_at: 1, completed_at: 2 } }
  }

  async #step({ kind, by, body, headers, guarded = true }: Step): Promise<number> {
    const { subjects } = this.#bus
    const first = this.#last === 0 && this.#request ? this.#request : undefined
    // Steps of an agent that count for nothing may be there before.
    const before = this.#last || (guarded && (await this.#bus.journal.newest(subjects.journal(this.key)))?.sequence) || 0
    const sequence = await this.#store({
      subject: subjects.step(kind, this.key, by),
      headers: {
        [HEADER.contentType]: CONTENT_TYPE.msgpack,
        [HEADER.digest]: DIGEST,
        ...(first ? { [HEADER.request]: String(first.sequence), [HEADER.requestedAt]: String(first.time) } : {}),
        ...(this.#last === 0 && before > 0 ? { [HEADER.first]: '1' } : {}),
        ...(this.#options.parent ? { [HEADER.parent]: keyText(this.#options.parent) } : {}),
        ...headers,
      },
      ...(body === undefined ? {} : { data: encode(body) }),
      ...(guarded ? { guard: { subject: subjects.journal(this.key), sequence: before } } : {}),
    })
    this.#last = sequence
    return sequence
  }

  async #store(message: Parameters<Bus['publish']>[0]): Promise<number> {
    const outcome = await this.#bus.publish(message)
    if (outcome.kind !== 'stored') throw new Error(`${message.subject} was not stored: ${JSON.stringify(outcome)}`)
    this.sequences.push(outcome.sequence)
    return outcome.sequence
  }
}
