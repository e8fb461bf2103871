import { decode } from '@passover/bus'
import { PassOverError, releaseExpiry, releaseOf } from '@passover/core'
import { type EffectivePolicy, HEADER, type PassError, type PassKey, SYSTEM, type WorkOutput } from '@passover/schemas'
import { applyItself, offersItself } from './apply/auto.js'
import type { Awaited } from './awaited.js'
import type { Deps } from './deps.js'
import { ask, type FoundReturn } from './look.js'
import { type Opened, openReturn } from './open-return.js'
import { Releases } from './release.js'

/** Outputs that this lets through are delivered whatever the policy says, so that it need not be read. */
const STRICTEST = { auto_review: false, auto_return: false }

/** Turns stored returns into what their callers get: opened, checked, and held back until they may be delivered. */
export class Delivering implements AsyncDisposable {
  readonly #deps: Deps
  readonly #releases: Releases
  /** Where an output that may apply itself is applied; undefined: nowhere. */
  readonly #directory: string | undefined
  #busy = 0

  constructor(deps: Deps, name: string, directory?: string) {
    this.#deps = deps
    this.#directory = directory
    this.#releases = new Releases(deps, name)
  }

  get size(): number {
    return this.#busy + this.#releases.size
  }

  /** Settles the pass by its return; `again` is called instead when reading failed. */
  deliver(awaited: Awaited, found: FoundReturn, again: () => void): void {
    const opened = openReturn(this.#deps.bus, awaited.key, found)
    if (!(opened instanceof Promise) && opened.ok && releaseOf(opened.output, STRICTEST, false).deliver) this.#give(awaited, opened.output)
    else this.#openSlowly(awaited, found, { opened, again })
  }

  #openSlowly(awaited: Awaited, found: FoundReturn, over: { opened: Opened | Promise<Opened>; again: () => void }): void {
    this.#busy += 1
    this.#slowly(awaited, found, over.opened)
      .catch(() => over.again())
      .finally(() => {
        this.#busy -= 1
      })
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#releases[Symbol.asyncDispose]()
  }

  async #slowly(awaited: Awaited, found: FoundReturn, opening: Opened | Promise<Opened>): Promise<void> {
    const opened = await opening
    if (!opened.ok) return this.#refuse(awaited, found, opened.error)
    if (releaseOf(opened.output, STRICTEST, false).deliver) return this.#give(awaited, opened.output)
    const policy = await this.#policyOf(awaited.key)
    if (!policy || releaseOf(opened.output, policy, false).deliver) return this.#give(awaited, opened.output)
    const release = releaseOf(opened.output, policy, false)
    const why = release.deliver ? '' : release.why
    this.#releases.wait({
      key: awaited.key,
      why,
      found,
      expires_at: releaseExpiry(found.time, policy),
      deliver: () => this.#give(awaited, opened.output),
      refuse: (error) => awaited.settle({ ok: false, error }),
    })
  }

  /** An id that expired may have a stored result of the same request: the audit remembers what the stream deleted. */
  async #refuse(awaited: Awaited, found: FoundReturn, error: PassError): Promise<void> {
    if (found.by === SYSTEM && error.code === 'E005' && awaited.digest !== undefined) {
      const asked = await ask(this.#deps.bus, awaited.key)
      const older = asked.kind === 'pass' && asked.pass.digest === awaited.digest ? asked.found : undefined
      if (older && older.sequence !== found.sequence) {
        const opened = await openReturn(this.#deps.bus, awaited.key, older)
        if (opened.ok) return this.#give(awaited, opened.output)
        return awaited.settle({ ok: false, error: PassOverError.from(opened.error) })
      }
    }
    awaited.settle({ ok: false, error: PassOverError.from(error) })
  }

  #give(awaited: Awaited, output: WorkOutput): void {
    output.metadata.returned_at = this.#deps.clock.now()
    if (this.#directory !== undefined && offersItself(output)) this.#applyFirst(awaited, output, this.#directory)
    else awaited.settle({ ok: true, output })
  }

  #applyFirst(awaited: Awaited, output: WorkOutput, directory: string): void {
    this.#busy += 1
    void applyItself({ deps: this.#deps, as: 'agent', directory }, awaited.key, output).then(() => {
      this.#busy -= 1
      awaited.settle({ ok: true, output })
    })
  }

  /** The policy that the pass ran under stands in its work step; where that was deleted, the audit knows it. */
  async #policyOf(key: PassKey): Promise<EffectivePolicy | undefined> {
    const { bus } = this.#deps
    const work = (await bus.journal.glimpse(key)).find((step) => step.kind === 'work')
    const stored = work && (await bus.journal.last(bus.subjects.step('work', key, work.by)))
    if (stored) {
      const decoded = decode(stored.data, stored.headers.get(HEADER.contentType))
      if (decoded.ok) return (decoded.value as { control?: { policy?: EffectivePolicy } }).control?.policy
    }
    const asked = await ask(bus, key)
    if (asked.kind === 'unanswered') throw new PassOverError('E040', 'the policy of the pass cannot be read')
    return asked.kind === 'pass' ? (asked.pass.control as { policy?: EffectivePolicy } | undefined)?.policy : undefined
  }
}
