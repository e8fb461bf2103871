import { decode } from '@passover/bus'
import { openControl, PassOverError, schemaToCheck } from '@passover/core'
import { HEADER, type PassKey, type WorkControl, type WorkEnvelope, type WorkOutput } from '@passover/schemas'
import { askAudit } from '../journal/poll.js'
import type { Deps } from '../runtime/dependencies.js'

/** What a caller must know of a pass to judge its return. */
export type ReturnConstraints = Pick<WorkControl, 'policy' | 'rights'>

/** As soon as every dispatcher follows a new policy. */
const MAX_AGE_MS = 5_000

interface Known {
  /** Monotonic ms of the last look. */
  at: number
  schema: boolean | undefined
  looking: Promise<unknown> | undefined
}

/**
 * The terms under which passes ran, as their work steps say. Reading one for each return would cost as much as the return: whether a
 * subagent's passes set an output_schema at all is learned from one of them every few seconds (docs/architecture/worker.md#output-schemas).
 */
export class ConstraintLookup {
  readonly #deps: Deps
  readonly #known = new Map<string, Known>()

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Whether an output can be judged by nothing but itself. */
  isUnconstrained(key: PassKey, output: WorkOutput): boolean {
    const known = this.#known.get(key.subagent)
    if (known?.schema !== false || this.#deps.clock.monotonic() - known.at >= MAX_AGE_MS) return false
    return !output.artifacts.some(({ type }) => type === 'tool_result')
  }

  /** The terms of a pass, undefined where they set none for this output. Throws what reading throws. */
  async of(key: PassKey, output: WorkOutput): Promise<ReturnConstraints | undefined> {
    const looking = this.#known.get(key.subagent)?.looking
    if (looking) {
      await looking
      if (this.isUnconstrained(key, output)) return undefined
    }
    return this.#look(key)
  }

  /** The control frame of a pass: it stands in its work step; where that was deleted, the audit knows it. */
  async #look(key: PassKey): Promise<ReturnConstraints> {
    const known: Known = this.#known.get(key.subagent) ?? { at: Number.NEGATIVE_INFINITY, schema: undefined, looking: undefined }
    this.#known.set(key.subagent, known)
    const reading = this.control(key)
    known.looking = reading
      .catch(() => undefined)
      .finally(() => {
        known.looking = undefined
      })
    const control = await reading
    known.at = this.#deps.clock.monotonic()
    known.schema = schemaToCheck(control) !== undefined
    return control
  }

  /** The same, whether it is needed or not. E040: they cannot be read now. */
  async control(key: PassKey): Promise<ReturnConstraints> {
    const { bus } = this.#deps
    const work = (await bus.journal.glimpse(key)).find((step) => step.kind === 'work' && step.untrusted === undefined)
    const stored = work && (await bus.journal.last(bus.subjects.step('work', key, work.by)))
    const decoded = stored && decode(stored.data, stored.headers.get(HEADER.contentType))
    const frame = decoded?.ok ? (decoded.value as Partial<WorkEnvelope> | null)?.control : undefined
    const step = stored && bus.subjects.toFact(stored)
    const opened = frame?.policy && step?.type === 'step' && step.untrusted === undefined ? openControl(frame, step) : undefined
    if (opened) return opened
    const asked = await askAudit(bus, key)
    const control = asked.kind === 'pass' ? (asked.pass.control as ReturnConstraints | undefined) : undefined
    // What was returned ran under some: an audit that begins anew may not know them yet, and nothing is handed out unjudged meanwhile.
    if (!control) throw new PassOverError('E040', 'the policy of the pass cannot be read')
    return control
  }
}
