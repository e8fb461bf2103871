import { ChurnMap } from '@passover/core'
import { isSamePass, type PassKey } from '@passover/schemas'
import type { PendingReturn, ReturnOutcome } from '../delivery/pending-return.js'

const NONE: readonly PendingReturn[] = []

/** The awaited passes. Several callers may wait for the same pass. */
export class PendingReturns {
  /** Awaited passes by id. An id usually names a single pass. */
  readonly #awaited = new ChurnMap<string, PendingReturn[]>()

  get size(): number {
    return this.#awaited.size
  }

  of(key: PassKey): readonly PendingReturn[] {
    const same = this.#awaited.get(key.id)
    if (!same) return NONE
    return same.every((one) => isSamePass(one.key, key)) ? same : same.filter((one) => isSamePass(one.key, key))
  }

  *all(): Iterable<PendingReturn> {
    for (const same of this.#awaited.values()) yield* same
  }

  add(
    pass: Pick<PendingReturn, 'key' | 'digest' | 'epoch' | 'quiet'> & { noticed?: boolean | undefined; traceparent?: string | undefined },
    settle: (outcome: ReturnOutcome) => void,
  ): PendingReturn {
    const awaited: PendingReturn = {
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
      quiet: pass.quiet,
      noticed: pass.noticed === true,
      settle,
    }
    const same = this.#awaited.get(pass.key.id)
    if (same) same.push(awaited)
    else this.#awaited.set(pass.key.id, [awaited])
    return awaited
  }

  remove(awaited: PendingReturn): void {
    const { id } = awaited.key
    const same = this.#awaited.get(id)
    if (!same) return
    const rest = same.length === 1 && same[0] === awaited ? NONE : same.filter((one) => one !== awaited)
    if (rest.length > 0) this.#awaited.set(id, [...rest])
    else this.#awaited.delete(id)
  }
}
