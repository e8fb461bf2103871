import { encode } from '@passover/bus'
import { passError, TokenBuckets } from '@passover/core'
import type { AgentRecord, PassError, RegisterAnswer } from '@passover/schemas'
import pLimit from 'p-limit'
import type { BaseContext } from '../runtime/base-context.js'
import type { Registry } from './registry.js'

/** Maximum number of tries while other processes change the registry. A try that loses stores nothing. */
const MAX_TRIES = 20
/** Maximum bytes of a record that an agent writes about itself. The limit is needed because record events stay in the stream forever. */
const MAX_RECORD_BYTES = 64 * 1024
/** KiB of events that changes of one agent's own record may store: at once, and then in an hour. Each change counts as at least `LEAST_KIB`. */
const KIB_AN_HOUR = 256
const LEAST_KIB = 4
const HOUR_S = 3_600
/** Maximum milliseconds between two tries. */
const PAUSE_MS = 50

/** Dependencies of a change to the registry. */
export interface RegistryContext extends Pick<BaseContext, 'deps' | 'options'> {
  registry: Registry
}

export interface RegistrationContext extends RegistryContext {
  changes: SelfChanges
}

/** The new record of an agent, or the answer if nothing changes. `over`: the revision from which the new record was derived. */
export type Change = { record: AgentRecord; over: number } | { answer: RegisterAnswer }

/**
 * Limits the changes that agents make to their own records (docs/operations/quotas.md). Changes of this process run one at a time, because the events
 * of all agents share one guard.
 */
export class SelfChanges {
  readonly #buckets = new TokenBuckets({ per_second: KIB_AN_HOUR / HOUR_S, burst: KIB_AN_HOUR })
  readonly #turn = pLimit(1)

  /**
   * Stores the change that `derive` returns for the stored record. Stores the event before the record, so that the stream alone shows the rights of
   * each agent at any time. Calls `derive` again if another change was stored first. Returns the stored record, or the answer for the agent.
   */
  async store(
    context: RegistryContext,
    name: string,
    derive: () => Promise<Change>,
  ): Promise<{ record: AgentRecord } | { answer: RegisterAnswer }> {
    // Most processes change nothing when they start, and need not wait for processes that do.
    const change = await derive()
    return 'answer' in change ? change : await this.#turn(() => this.#store(context, name, derive))
  }

  async #store(
    { deps, registry }: RegistryContext,
    name: string,
    derive: () => Promise<Change>,
  ): Promise<{ record: AgentRecord } | { answer: RegisterAnswer }> {
    let isCounted = false
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const { sequence: position, underWay } = await registry.writes.position(name)
      if (underWay) {
        // This try does not count: the wait ends when the other process stores the record, or some seconds after its event if it crashed.
        tries--
        await pause(deps)
        continue
      }
      const change = await derive()
      if ('answer' in change) return change
      const { record } = change
      const { byteLength } = encode(record)
      const refusal = tooLarge(record.name, byteLength) ?? (isCounted ? undefined : this.#tooMany(record.name, deps.clock.monotonic()))
      if (refusal) return { answer: refusedAnswer(refusal) }
      isCounted = true
      await deps.faults?.at('register:before-event')
      const published = await registry.writes.tell(record.name, record, position)
      if (published.kind === 'lost') {
        await pause(deps)
        continue
      }
      if (published.kind !== 'stored') return { answer: notStoredAnswer() }
      this.#buckets.charge(record.name, Math.max(LEAST_KIB, Math.ceil(byteLength / 1024)) - 1, deps.clock.monotonic())
      await deps.faults?.at('register:before-record')
      const kept = await registry.writes.keep(change)
      if (kept === 'kept') return { record }
      if (kept === 'untold')
        deps.log.warn({ agent: record.name }, 'the event in the stream may differ from the stored record; change the agent again')
    }
    return { answer: notStoredAnswer() }
  }

  #tooMany(name: string, now: number): PassError | undefined {
    const taken = this.#buckets.take(name, now)
    if (taken.ok) return undefined
    const message = `"${name}" changed its own description too often within an hour; the previous description stays`
    return passError('E014', message, { agent: name, retry_after_ms: taken.wait_ms })
  }
}

function pause({ clock, random }: RegistryContext['deps']): Promise<void> {
  return new Promise((done) => clock.after(PAUSE_MS * ((random.bytes(1)[0] ?? 0) / 256), done))
}

function tooLarge(agent: string, bytes: number): PassError | undefined {
  if (bytes <= MAX_RECORD_BYTES) return undefined
  const message = `description, skills and output_schema of "${agent}" make a record of ${bytes} bytes: the limit for an agent that registers itself is ${MAX_RECORD_BYTES} bytes`
  return passError('E005', message, { agent, mend: 'shorten its output_schema, or have a person set it in the policy' })
}

export function refusedAnswer(error: PassError): RegisterAnswer {
  return { ok: false, error }
}

export function notStoredAnswer(): RegisterAnswer {
  return refusedAnswer(passError('E014', 'the registration could not be stored', { retry_after_ms: 1_000 }))
}
