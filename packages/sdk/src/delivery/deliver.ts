import {
  acceptReturn,
  type CheckSchema,
  evaluateRelease,
  type JournalRules,
  outputConstraints,
  PassOverError,
  releaseExpiry,
} from '@passover/core'
import { idTime, isSamePass, type PassError, type PassKey, SYSTEM, type WorkOutput } from '@passover/schemas'
import { autoApply, offersAutoApply } from '../apply/auto-apply.js'
import { askAudit, type StoredReturn } from '../journal/poll.js'
import { type DecodedReturn, decodeReturn, rejectedOutput } from '../messages/decode-return.js'
import type { Deps } from '../runtime/dependencies.js'
import type { AckPublisher } from './ack-publisher.js'
import { ReleaseWaiter } from './await-release.js'
import { ConstraintLookup, type ReturnConstraints } from './constraint-lookup.js'
import type { PendingReturn, ReturnOutcome } from './pending-return.js'

/** An output that even this policy releases is delivered under every policy, so that the policy of its pass need not be read. */
const STRICTEST = { auto_review: false, auto_return: false }

/** Decodes and checks stored returns, holds them back until they may be delivered, and settles the waiting callers. */
export class ReturnDelivery implements AsyncDisposable {
  readonly #deps: Deps
  readonly #releases: ReleaseWaiter
  readonly #ackPublisher: Pick<AckPublisher, 'note'>
  /** Directory in which outputs are applied automatically, or `undefined` if they are not. */
  readonly #directory: string | undefined
  readonly #constraints: ConstraintLookup
  readonly #check: CheckSchema | undefined
  readonly #rules: JournalRules
  readonly #under = new Set<PendingReturn>()
  #closed = false

  constructor(
    deps: Deps,
    home: { name: string; ackPublisher: Pick<AckPublisher, 'note'>; directory?: string | undefined; rules: JournalRules },
  ) {
    this.#rules = home.rules
    this.#deps = deps
    this.#directory = home.directory
    this.#ackPublisher = home.ackPublisher
    this.#releases = new ReleaseWaiter(deps, home.name)
    this.#constraints = new ConstraintLookup(deps)
    const { schemas } = deps
    this.#check = schemas && ((schema, value, subagent) => schemas.checkFor(subagent, schema, value))
  }

  get size(): number {
    return this.#under.size + this.#releases.size
  }

  /** Returns true if the return of the pass is being decoded, awaits release or is being applied. */
  has(key: PassKey): boolean {
    for (const awaited of this.#under) if (isSamePass(awaited.key, key)) return true
    return this.#releases.has(key)
  }

  /** Settles the caller with the return. If reading fails, calls `again` instead. */
  deliver(awaited: PendingReturn, found: StoredReturn, again: () => void): void {
    awaited.returned = found.sequence
    awaited.returned_at = found.time
    const opened = decodeReturn(this.#deps, awaited.key, found)
    const plain = !(opened instanceof Promise) && opened.ok && evaluateRelease(opened.output, STRICTEST, false).deliver
    if (plain && this.#constraints.isUnconstrained(awaited.key, opened.output)) this.#give(awaited, opened.output)
    else this.#openSlowly(awaited, found, { opened, again })
  }

  #openSlowly(
    awaited: PendingReturn,
    found: StoredReturn,
    over: { opened: DecodedReturn | Promise<DecodedReturn>; again: () => void },
  ): void {
    this.#under.add(awaited)
    const done = (settle: () => void): void => {
      this.#under.delete(awaited)
      // An error at this point may come from the closing agent and not from the return.
      if (this.#closed) over.again()
      else settle()
    }
    this.#slowly(awaited, found, over.opened).then(done, () => done(over.again))
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true
    return this.#releases[Symbol.asyncDispose]()
  }

  async #slowly(awaited: PendingReturn, found: StoredReturn, opening: DecodedReturn | Promise<DecodedReturn>): Promise<() => void> {
    const read = await opening
    const { opened, terms } = read.ok ? await this.#judged(awaited.key, read.output) : { opened: read, terms: undefined }
    if (!opened.ok) return this.#refuse(awaited, found, opened.error)
    const give = (): void => this.#give(awaited, opened.output)
    if (evaluateRelease(opened.output, STRICTEST, false).deliver) return give
    const { policy } = terms ?? (await this.#constraints.control(awaited.key))
    const release = evaluateRelease(opened.output, policy, false)
    if (release.deliver) return give
    const refuse = (error: PassOverError): void => this.#settle(awaited, { ok: false, error })
    const held = { key: awaited.key, why: release.why, found, expires_at: releaseExpiry(found.time, policy), deliver: give, refuse }
    return () => this.#releases.wait(held)
  }

  /** Checks the output also against the rights and the output_schema of its pass. */
  async #judged(key: PassKey, output: WorkOutput): Promise<{ opened: DecodedReturn; terms: ReturnConstraints | undefined }> {
    const terms = await this.#constraints.of(key, output)
    if (!terms) return { opened: { ok: true, output }, terms }
    const accepted = acceptReturn(output, key, await outputConstraints(output, { ...terms, subagent_id: key.subagent }, this.#check))
    return { opened: accepted.ok ? { ok: true, output } : rejectedOutput(accepted.error, output), terms }
  }

  /** Rejects the caller. For an expired id, looks for a stored result of the same request first: the audit service keeps what the stream deleted. */
  async #refuse(awaited: PendingReturn, found: StoredReturn, error: PassError): Promise<() => void> {
    const { key, digest } = awaited
    if (found.by === SYSTEM && error.code === 'E005' && (digest !== undefined || this.#hasExpired(key, found.time))) {
      const asked = await askAudit(this.#deps.bus, key)
      // A caller that gives only the id means the pass that used it before: an expired id cannot begin a new pass.
      const older = asked.kind === 'pass' && (digest === undefined || asked.pass.digest === digest) ? asked.found : undefined
      if (older && older.sequence !== found.sequence) {
        awaited.returned = older.sequence
        awaited.returned_at = older.time
        // An old return is checked like any other: its age does not replace a release.
        return this.#slowly(awaited, older, decodeReturn(this.#deps, key, older))
      }
    }
    return () => this.#settle(awaited, { ok: false, error: PassOverError.from(error) })
  }

  #hasExpired({ id }: PassKey, at: number): boolean {
    const made = idTime(id)
    return made !== undefined && at - made > this.#rules.id_window_ms
  }

  #give(awaited: PendingReturn, output: WorkOutput): void {
    output.metadata.returned_at = this.#deps.clock.now()
    if (this.#directory !== undefined && offersAutoApply(output)) this.#applyFirst(awaited, output, this.#directory)
    else this.#settle(awaited, { ok: true, output })
  }

  /** Settles the caller and acknowledges the return, unless the error is E040: then only this process failed. */
  #settle(awaited: PendingReturn, outcome: ReturnOutcome): void {
    if (awaited.traceparent !== undefined) traceDelivery(this.#deps, awaited, outcome)
    awaited.settle(outcome)
    if (!awaited.quiet && (outcome.ok || outcome.error.code !== 'E040')) this.#ackPublisher.note(awaited.returned)
  }

  #applyFirst(awaited: PendingReturn, output: WorkOutput, directory: string): void {
    this.#under.add(awaited)
    void autoApply({ deps: this.#deps, as: 'agent', directory }, awaited.key, output).then(() => {
      this.#under.delete(awaited)
      this.#settle(awaited, { ok: true, output })
    })
  }
}

/**
 * Records a span from the time the return was stored until its caller has it. It covers transport, the wait for a release and the application of
 * changes.
 */
function traceDelivery({ tracing, clock }: Pick<Deps, 'tracing' | 'clock'>, awaited: PendingReturn, outcome: ReturnOutcome): void {
  const { key, traceparent: parent, returned_at } = awaited
  const now = clock.now()
  tracing?.begin({ name: 'delivery', key, at: Math.min(returned_at, now), parent })?.end(now, outcome.ok ? undefined : outcome.error.code)
}
