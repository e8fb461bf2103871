import { PassingMap } from '@passover/core'
import { isSamePass, type PassKey } from '@passover/schemas'
import type { Awaited, Settled } from '../delivery/pending-return.js'

const NONE: readonly Awaited[] = []

/** The passes that are waited for; several callers may wait for the same one. */
export class Waiting {
  /** By id: mostly that names one pass. */
  readonly #awaited = new PassingMap<string, Awaited[]>()

  get size(): number {
    return this.#awaited.size
  }

  of(key: PassKey): readonly Awaited[] {
    const same = this.#awaited.get(key.id)
    if (!same) return NONE
    return same.every((one) => isSamePass(one.key, key)) ? same : same.filter((one) => isSamePass(one.key, key))
  }

  *all(): Iterable<Awaited> {
    for (const same of this.#awaited.values()) yield* same
  }

  add(
    pass: Pick<Awaited, 'key' | 'digest' | 'epoch' | 'quiet'> & { noticed?: boolean | undefined; traceparent?: string | undefined },
    settle: (outcome: Settled) => void,
  ): Awaited {
    const awaited: Awaited = {
      key: pass.key,
      digest: pass.digest,
      epoch: pass.epoch,
      look_at: Number.POSITIVE_INFINITY,
      give_up_at: Number.POSITIVE_INFINITY,
      overdue_since: undefined,
      published: undefined,
      held: false,
      looks: 0,
      busy: false,
      over: false,
      hearing: undefined,
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

  remove(awaited: Awaited): void {
    const { id } = awaited.key
    const same = this.#awaited.get(id)
    if (!same) return
    const rest = same.length === 1 && same[0] === awaited ? NONE : same.filter((one) => one !== awaited)
    if (rest.length > 0) this.#awaited.set(id, [...rest])
    else this.#awaited.delete(id)
  }
}
