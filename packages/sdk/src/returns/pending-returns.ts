import { ChurnMap } from '@passover/core'
import { isSamePass, type PassKey } from '@passover/schemas'
import type { PendingReturn, ReturnOutcome } from '../delivery/pending-return.js'

const NONE: readonly PendingReturn[] = []

/** The awaited passes. Several callers may wait for the same pass. */
export class PendingReturns {
  /** Awaited passes by id. An id usually names a single pass. */
  readonly #pending = new ChurnMap<string, PendingReturn[]>()

  get size(): number {
    return this.#pending.size
  }

  of(key: PassKey): readonly PendingReturn[] {
    const same = this.#pending.get(key.id)
    if (!same) return NONE
    return same.every((one) => isSamePass(one.key, key)) ? same : same.filter((one) => isSamePass(one.key, key))
  }

  *all(): Iterable<PendingReturn> {
    for (const same of this.#pending.values()) yield* same
  }

  add(
    pass: Pick<PendingReturn, 'key' | 'digest' | 'epoch' | 'skip_ack'> & {
      emit_event?: boolean | undefined
      traceparent?: string | undefined
    },
    settle: (outcome: ReturnOutcome) => void,
  ): PendingReturn {
    const pending: PendingReturn = {
      key: pass.key,
      digest: pass.digest,
      epoch: pass.epoch,
      nextPollAt: Number.POSITIVE_INFINITY,
      give_up_at: Number.POSITIVE_INFINITY,
      overdue_since: undefined,
      published: undefined,
      begun: false,
      pollCount: 0,
      polling: false,
      finished: false,
      subscription: undefined,
      returned: 0,
      returned_at: 0,
      traceparent: pass.traceparent,
      skip_ack: pass.skip_ack,
      emit_event: pass.emit_event === true,
      settle,
    }
    const same = this.#pending.get(pass.key.id)
    if (same) same.push(pending)
    else this.#pending.set(pass.key.id, [pending])
    return pending
  }

  remove(pending: PendingReturn): void {
    const { id } = pending.key
    const same = this.#pending.get(id)
    if (!same) return
    const rest = same.length === 1 && same[0] === pending ? NONE : same.filter((one) => one !== pending)
    if (rest.length > 0) this.#pending.set(id, [...rest])
    else this.#pending.delete(id)
  }
}
