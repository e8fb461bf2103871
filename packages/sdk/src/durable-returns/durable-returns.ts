import type { AckDecision, Consumption, Delivery } from '@passover/bus'
import { FairSlots, mayCount, PassOverError, withTimeout } from '@passover/core'
import { type PassKey, registerAnswer, type Step } from '@passover/schemas'
import type { PendingReturn, ReturnOutcome } from '../delivery/pending-return.js'
import type { ReturnedPass } from '../delivery/return-events.js'
import { describeThrown } from '../errors/describe-thrown.js'
import type { ReturnWaiter } from '../returns/return-waiter.js'
import { type Deps, sleep } from '../runtime/dependencies.js'
import { AckLookup } from './ack-lookup.js'
import { ReturnCheck } from './return-check.js'

/** Listener for durable returns. If it throws or its process dies, the return is delivered again. */
export type DurableReturnListener = (returned: ReturnedPass) => void | Promise<void>

/** Age in milliseconds below which a caller that waits may still deliver the return. At that age, its acknowledgment is stored. */
const LIVE_GRACE_MS = 2_500
/**
 * Base delay of a redelivery in milliseconds, doubled with each delivery (bus, durable-consumer.ts). A random 50 % is added or subtracted so that
 * deliveries do not return all at once.
 */
const RETRY_DELAY_MS = 2_000
/**
 * Maximum numbers of concurrent deliveries, checks and listener calls. The difference between deliveries and checks always leaves room for the
 * returns of other subagents.
 */
const CONCURRENCY = 512
const CHECK_CONCURRENCY = 384
const LISTENER_CONCURRENCY = 8
/** Number of returns that this process remembers as delivered, until the audit service knows about them. */
const MAX_REMEMBERED = 10_000
/** Milliseconds until a read is given up. A return that takes longer awaits a person's release and is checked again later. */
const READ_TIMEOUT_MS = 10_000

const REGISTER_TIMEOUT_MS = 10_000
const REGISTER_RETRY_MS = 250

interface DurableReturnsContext {
  deps: Deps
  returns: ReturnWaiter
}

/**
 * Delivers returns that were not acknowledged while the agent was away (docs/architecture/protocol.md#delivery-of-returns). Each return
 * goes to one of the agent's processes, at least once, and is acknowledged when the listener has finished. If a caller waits for a return, only the
 * caller gets it.
 */
export class DurableReturns implements AsyncDisposable {
  readonly #deps: Deps
  readonly #returns: ReturnWaiter
  readonly #listener: DurableReturnListener
  readonly #ackLookup: AckLookup
  readonly #returnCheck: ReturnCheck
  readonly #fairSlots = new FairSlots(CHECK_CONCURRENCY)
  readonly #waitingForListener: (() => void)[] = []
  readonly #delivering = new Set<number>()
  readonly #delivered = new Set<number>()
  #listenerCalls = 0
  #consumption: Consumption | undefined
  #closed = false

  private constructor({ deps, returns }: DurableReturnsContext, listener: DurableReturnListener) {
    this.#deps = deps
    this.#returns = returns
    this.#listener = listener
    this.#ackLookup = new AckLookup(deps)
    this.#returnCheck = new ReturnCheck(deps.bus)
  }

  static async start(context: DurableReturnsContext, listener: DurableReturnListener): Promise<DurableReturns> {
    const created = new DurableReturns(context, listener)
    const { bus } = context.deps
    const durable = bus.subjects.returnsConsumer(bus.identity)
    created.#consumption = await bus.consume(durable, (delivery) => created.#onDelivery(delivery), { concurrency: CONCURRENCY })
    return created
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true
    await this.#consumption?.drain()
  }

  /** Handles a delivery. Returns of a subagent beyond its share of the slots are retried later, so that they do not block those of others. */
  async #onDelivery(delivery: Delivery): Promise<AckDecision> {
    const returned = this.#deps.bus.subjects.toFact(delivery)
    if (returned.type !== 'step' || returned.kind !== 'return' || !mayCount(returned)) return { ok: true }
    if (this.#delivered.has(delivery.sequence)) return { ok: true }
    const free = this.#fairSlots.take(returned.key.subagent)
    if (!free) return this.#retryLater()
    try {
      return await this.#judge(returned)
    } finally {
      free()
    }
  }

  async #judge(returned: Step): Promise<AckDecision> {
    const left = returned.time + LIVE_GRACE_MS - this.#deps.clock.now()
    if (left > 0) await sleep(this.#deps.clock, Math.min(left, LIVE_GRACE_MS))
    if (this.#closed) return { retry: true }
    const known = await this.#ackLookup.has(returned.sequence)
    if (known) return { ok: true }
    let counted = await this.#returnCheck.judgeByHeaders(returned)
    // Without the audit service it is also unknown whether another process has received the return.
    if (counted === 'unclear' && known !== undefined) counted = await this.#returnCheck.judgeByAudit(returned)
    if (counted === 'nothing') return { ok: true }
    if (counted === 'unclear' || known === undefined || (await this.#isAwaited(returned))) return this.#retryLater()
    return this.#deliverOnce(returned)
  }

  /**
   * Passes a return to the listener unless it is being handled already. With slow listeners a return may wait longer than its delivery is renewed,
   * and be redelivered meanwhile.
   */
  async #deliverOnce(returned: Step): Promise<AckDecision> {
    const { sequence } = returned
    if (this.#delivered.has(sequence)) return { ok: true }
    if (this.#delivering.has(sequence)) return this.#retryLater()
    this.#delivering.add(sequence)
    try {
      const ackDecision = await this.#deliver(returned)
      if ('ok' in ackDecision) this.#remember(sequence)
      return ackDecision
    } finally {
      this.#delivering.delete(sequence)
    }
  }

  #retryLater(): AckDecision {
    const [byte = 0] = this.#deps.random.bytes(1)
    return { retry: true, delay_ms: Math.round(RETRY_DELAY_MS * (0.5 + byte / 255)) }
  }

  #remember(returned: number): void {
    this.#delivered.add(returned)
    if (this.#delivered.size > MAX_REMEMBERED) for (const oldest of this.#delivered) return void this.#delivered.delete(oldest)
  }

  /** Returns true if a live process, including this one, awaits the return or is delivering it. */
  async #isAwaited({ key, sequence }: Step): Promise<boolean> {
    if (this.#returns.isPending(key, sequence)) return true
    const waited = await this.#deps.bus.isWaitedFor(key, sequence)
    return waited === 'waited' || waited === 'silent'
  }

  async #deliver(step: Step): Promise<AckDecision> {
    const { key, sequence } = step
    const { outcome, returned } = await this.#read(key)
    if (this.#closed) return { retry: true }
    // The pass still awaits a person, cannot be read, or ended with another return.
    if (!outcome || returned !== sequence)
      return (await this.#returnCheck.judgeByAudit(step)) === 'nothing' ? { ok: true } : this.#retryLater()
    if (!outcome.ok && outcome.error.code === 'E040') return this.#retryLater()
    await this.#takeListener()
    try {
      // Another process may have delivered it meanwhile.
      if (await this.#ackLookup.has(sequence)) return { ok: true }
      await this.#listener(outcome.ok ? { pass: key, output: outcome.output } : { pass: key, error: outcome.error })
    } catch (error) {
      this.#deps.say?.(`a listener of durable returns failed for ${key.id}, which is delivered again: ${describeThrown(error).message}`)
      return this.#retryLater()
    } finally {
      this.#freeListener()
    }
    // The acknowledgment is stored before the delivery is acknowledged: if the process dies in between, the return is not delivered again.
    await this.#returns.acknowledge(sequence)
    return { ok: true }
  }

  /**
   * Reads a return with the same result as awaiting its handle: decoded, checked against the constraints of its pass, and released if required. No
   * outcome means that it is not available yet. `returned` is the sequence of the return, or 0 if none was found.
   */
  async #read(key: PassKey): Promise<{ outcome?: ReturnOutcome; returned: number }> {
    let pending: PendingReturn | undefined
    const settled = new Promise<ReturnOutcome | undefined>((resolve) => {
      pending = this.#returns.register({ key, own_id: false, skip_ack: true }, resolve)
      this.#returns.subscribeAndPoll(pending).catch(() => resolve(undefined))
    })
    const outcome = await withTimeout(this.#deps.clock, READ_TIMEOUT_MS, settled)
    if (pending && !pending.finished) this.#returns.stopWaiting(pending)
    return { ...(outcome && { outcome }), returned: pending?.returned ?? 0 }
  }

  async #takeListener(): Promise<void> {
    if (this.#listenerCalls >= LISTENER_CONCURRENCY) await new Promise<void>((free) => this.#waitingForListener.push(free))
    this.#listenerCalls += 1
  }

  #freeListener(): void {
    this.#listenerCalls -= 1
    this.#waitingForListener.shift()?.()
  }
}

/** Returns true if a person enabled durable returns for this agent. */
export async function hasDurableReturns({ bus }: Deps): Promise<boolean> {
  const answering = bus.ask({ known: true, durable_returns: true }, { service: 'register' })
  const answer = registerAnswer.safeParse(await answering.catch(() => undefined))
  return answer.success && answer.data.ok
}

/** Asks the dispatchers to keep returns for this agent. Throws E013 if a person must allow it first, and E040 if no dispatcher answered. */
export async function registerDurableReturns(deps: Deps): Promise<void> {
  const until = deps.clock.monotonic() + REGISTER_TIMEOUT_MS
  for (;;) {
    const answer = registerAnswer.safeParse(await deps.bus.ask({ durable_returns: true }, { service: 'register' }).catch(() => undefined))
    if (answer.success && answer.data.ok) return
    if (answer.success && !answer.data.ok) throw PassOverError.from(answer.data.error)
    if (deps.clock.monotonic() >= until) break
    await sleep(deps.clock, REGISTER_RETRY_MS)
  }
  throw new PassOverError('E040', `no dispatcher answered, so returns are not kept for "${deps.bus.identity}"`, {
    connected: deps.bus.connected,
  })
}
