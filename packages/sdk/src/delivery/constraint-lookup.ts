import { decode } from '@passover/bus'
import { openControl, PassOverError, schemaToCheck } from '@passover/core'
import { HEADER, type PassKey, type WorkControl, type WorkEnvelope, type WorkOutput } from '@passover/schemas'
import { askAudit } from '../journal/poll.js'
import type { Deps } from '../runtime/dependencies.js'

/** The parts of a pass's control data that its return is checked against. */
export type ReturnConstraints = Pick<WorkControl, 'policy' | 'rights'>

/** Milliseconds for which a result is cached: the time by which every dispatcher follows a new policy. */
const MAX_AGE_MS = 5_000

interface CachedConstraint {
  /** Time of the last read, in monotonic ms. */
  at: number
  schema: boolean | undefined
  reading: Promise<unknown> | undefined
}

/**
 * Looks up the policy and rights under which passes ran, from their work steps. Reading one for each return would cost as much as the return itself.
 * So one pass of each subagent is read every few seconds to see if the passes of the subagent have an output_schema
 * (docs/architecture/worker.md#output-schemas).
 */
export class ConstraintLookup {
  readonly #deps: Deps
  readonly #cache = new Map<string, CachedConstraint>()

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Returns true if an output can be checked without the policy and rights of its pass. */
  isUnconstrained(key: PassKey, output: WorkOutput): boolean {
    const cached = this.#cache.get(key.subagent)
    if (cached?.schema !== false || this.#deps.clock.monotonic() - cached.at >= MAX_AGE_MS) return false
    return !output.artifacts.some(({ type }) => type === 'tool_result')
  }

  /** Returns the constraints of a pass, or `undefined` if there are none for this output. Throws the errors of reading. */
  async of(key: PassKey, output: WorkOutput): Promise<ReturnConstraints | undefined> {
    const reading = this.#cache.get(key.subagent)?.reading
    if (reading) {
      await reading
      if (this.isUnconstrained(key, output)) return undefined
    }
    return this.#read(key)
  }

  /** Reads the constraints of a pass and caches whether they include an output_schema. */
  async #read(key: PassKey): Promise<ReturnConstraints> {
    const cached: CachedConstraint = this.#cache.get(key.subagent) ?? {
      at: Number.NEGATIVE_INFINITY,
      schema: undefined,
      reading: undefined,
    }
    this.#cache.set(key.subagent, cached)
    const control = this.control(key)
    cached.reading = control
      .catch(() => undefined)
      .finally(() => {
        cached.reading = undefined
      })
    const constraints = await control
    cached.at = this.#deps.clock.monotonic()
    cached.schema = schemaToCheck(constraints) !== undefined
    return constraints
  }

  /**
   * Reads the constraints of a pass from its work step, or from the audit service if the step was deleted. Throws E040 if they cannot be read now.
   */
  async control(key: PassKey): Promise<ReturnConstraints> {
    const { bus } = this.#deps
    const work = (await bus.journal.glimpse(key)).find((step) => step.kind === 'work' && step.untrusted === undefined)
    const stored = work && (await bus.journal.last(bus.subjects.step('work', key, work.by)))
    const decoded = stored && decode(stored.data, stored.headers.get(HEADER.contentType))
    const frame = decoded?.ok ? (decoded.value as Partial<WorkEnvelope> | null)?.control : undefined
    const step = stored && bus.subjects.toFact(stored)
    const opened = frame?.policy && step?.type === 'step' && step.untrusted === undefined ? openControl(frame, step) : undefined
    if (opened) return opened
    const answer = await askAudit(bus, key)
    const control = answer.kind === 'pass' ? (answer.pass.control as ReturnConstraints | undefined) : undefined
    // Every returned pass had a policy. An audit service that restarted from the beginning may not have it yet. Until then, no output
    // is delivered without this check.
    if (!control) throw new PassOverError('E040', 'the policy of the pass cannot be read')
    return control
  }
}
