/**
 * Stage 7 of a pass, in the originator. In: a stored return that counts. Out: its output or error, to the caller that awaits it, and an acknowledgment.
 * Checks the output against the constraints of its pass, and holds it back until a person releases it if the policy says so.
 */

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

/** The strictest policy. An output that it releases is released under every policy, so the policy of the pass need not be read. */
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
  readonly #inProgress = new Set<PendingReturn>()
  #closed = false

  constructor(
    deps: Deps,
    options: { name: string; ackPublisher: Pick<AckPublisher, 'note'>; directory?: string | undefined; rules: JournalRules },
  ) {
    this.#rules = options.rules
    this.#deps = deps
    this.#directory = options.directory
    this.#ackPublisher = options.ackPublisher
    this.#releases = new ReleaseWaiter(deps, options.name)
    this.#constraints = new ConstraintLookup(deps)
    const { schemas } = deps
    this.#check = schemas && ((schema, value, subagent) => schemas.checkFor(subagent, schema, value))
  }

  get size(): number {
    return this.#inProgress.size + this.#releases.size
  }

  /** Returns true if the return of the pass is being decoded, awaits release or is being applied. */
  has(key: PassKey): boolean {
    for (const pending of this.#inProgress) if (isSamePass(pending.key, key)) return true
    return this.#releases.has(key)
  }

  /** Settles the caller with the return. If it cannot be read now, calls `onUnreadable` instead. */
  deliver(pending: PendingReturn, storedReturn: StoredReturn, onUnreadable: () => void): void {
    pending.returned = storedReturn.sequence
    pending.returned_at = storedReturn.time
    const decoded = decodeReturn(this.#deps, pending.key, storedReturn)
    const isReleased = !(decoded instanceof Promise) && decoded.ok && evaluateRelease(decoded.output, STRICTEST, false).deliver
    if (isReleased && this.#constraints.isUnconstrained(pending.key, decoded.output)) this.#deliverOutput(pending, decoded.output)
    else this.#deliverAfterChecks(pending, storedReturn, { decoded, onUnreadable })
  }

  #deliverAfterChecks(
    pending: PendingReturn,
    storedReturn: StoredReturn,
    over: { decoded: DecodedReturn | Promise<DecodedReturn>; onUnreadable: () => void },
  ): void {
    this.#inProgress.add(pending)
    const done = (settle: () => void): void => {
      this.#inProgress.delete(pending)
      // An error at this point may come from the closing agent and not from the return.
      if (this.#closed) over.onUnreadable()
      else settle()
    }
    this.#checkAndRelease(pending, storedReturn, over.decoded).then(done, () => done(over.onUnreadable))
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true
    return this.#releases[Symbol.asyncDispose]()
  }

  async #checkAndRelease(
    pending: PendingReturn,
    storedReturn: StoredReturn,
    decoding: DecodedReturn | Promise<DecodedReturn>,
  ): Promise<() => void> {
    const result = await decoding
    const { decoded, constraints } = result.ok
      ? await this.#checkConstraints(pending.key, result.output)
      : { decoded: result, constraints: undefined }
    if (!decoded.ok) return this.#refuse(pending, storedReturn, decoded.error)
    const deliver = (): void => this.#deliverOutput(pending, decoded.output)
    if (evaluateRelease(decoded.output, STRICTEST, false).deliver) return deliver
    const { policy } = constraints ?? (await this.#constraints.control(pending.key))
    const release = evaluateRelease(decoded.output, policy, false)
    if (release.deliver) return deliver
    const refuse = (error: PassOverError): void => this.#settle(pending, { ok: false, error })
    const held = { key: pending.key, why: release.why, storedReturn, expires_at: releaseExpiry(storedReturn.time, policy), deliver, refuse }
    return () => this.#releases.wait(held)
  }

  /** Checks the output also against the rights and the output_schema of its pass. */
  async #checkConstraints(
    key: PassKey,
    output: WorkOutput,
  ): Promise<{ decoded: DecodedReturn; constraints: ReturnConstraints | undefined }> {
    const constraints = await this.#constraints.of(key, output)
    if (!constraints) return { decoded: { ok: true, output }, constraints }
    const accepted = acceptReturn(output, key, await outputConstraints(output, { ...constraints, subagent_id: key.subagent }, this.#check))
    return { decoded: accepted.ok ? { ok: true, output } : rejectedOutput(accepted.error, output), constraints }
  }

  /** Rejects the caller. For an expired id, looks for a stored result of the same request first: the audit service keeps what the stream deleted. */
  async #refuse(pending: PendingReturn, storedReturn: StoredReturn, error: PassError): Promise<() => void> {
    const { key, digest } = pending
    if (storedReturn.by === SYSTEM && error.code === 'E005' && (digest !== undefined || this.#hasExpired(key, storedReturn.time))) {
      const answer = await askAudit(this.#deps.bus, key)
      // A caller that gives only the id means the pass that used it before: an expired id cannot begin a new pass.
      const older = answer.kind === 'pass' && (digest === undefined || answer.pass.digest === digest) ? answer.storedReturn : undefined
      if (older && older.sequence !== storedReturn.sequence) {
        pending.returned = older.sequence
        pending.returned_at = older.time
        // An old return is checked like any other: its age does not replace a release.
        return this.#checkAndRelease(pending, older, decodeReturn(this.#deps, key, older))
      }
    }
    return () => this.#settle(pending, { ok: false, error: PassOverError.from(error) })
  }

  #hasExpired({ id }: PassKey, at: number): boolean {
    const created = idTime(id)
    return created !== undefined && at - created > this.#rules.id_window_ms
  }

  #deliverOutput(pending: PendingReturn, output: WorkOutput): void {
    output.metadata.returned_at = this.#deps.clock.now()
    if (this.#directory !== undefined && offersAutoApply(output)) this.#applyAndSettle(pending, output, this.#directory)
    else this.#settle(pending, { ok: true, output })
  }

  /** Settles the caller and acknowledges the return, unless the error is E040: then only this process failed. */
  #settle(pending: PendingReturn, outcome: ReturnOutcome): void {
    if (pending.traceparent !== undefined) traceDelivery(this.#deps, pending, outcome)
    pending.settle(outcome)
    if (!pending.skip_ack && (outcome.ok || outcome.error.code !== 'E040')) this.#ackPublisher.note(pending.returned)
  }

  #applyAndSettle(pending: PendingReturn, output: WorkOutput, directory: string): void {
    this.#inProgress.add(pending)
    void autoApply({ deps: this.#deps, as: 'agent', directory }, pending.key, output).then(() => {
      this.#inProgress.delete(pending)
      this.#settle(pending, { ok: true, output })
    })
  }
}

/**
 * Records a span from the time the return was stored until its caller has it. It covers transport, the wait for a release and the application of
 * changes.
 */
function traceDelivery({ tracing, clock }: Pick<Deps, 'tracing' | 'clock'>, pending: PendingReturn, outcome: ReturnOutcome): void {
  const { key, traceparent: parent, returned_at } = pending
  const now = clock.now()
  tracing?.begin({ name: 'delivery', key, at: Math.min(returned_at, now), parent })?.end(now, outcome.ok ? undefined : outcome.error.code)
}
