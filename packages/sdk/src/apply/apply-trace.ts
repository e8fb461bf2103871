import type { Bus } from '@passover/bus'
import { HEADER, type PassKey, soundTraceparent } from '@passover/schemas'
import type { Deps } from '../deps.js'
import type { Applied, ToApply } from './apply-chosen.js'

/** Where a pass stands in its trace, as its return says; undefined: it is not traced, or no longer in the stream. */
export async function storedTrace(bus: Bus, key: PassKey): Promise<string | undefined> {
  const stored = await bus.journal.last(bus.subjects.return(key, key.subagent)).catch(() => undefined)
  return soundTraceparent(stored?.headers.get(HEADER.traceparent))
}

/** What is applied minutes later, by another process, still belongs to the trace of its pass. */
export async function inApplySpan({ bus, tracing, clock }: Deps, todo: ToApply, apply: () => Promise<Applied>): Promise<Applied> {
  const at = clock.now()
  const parent = (await storedTrace(bus, todo.key)) ?? tracing?.active()
  const facts = { taken: todo.taken.length, applied_by: todo.applied_by }
  const span = tracing?.begin({ name: 'apply', key: todo.key, at, parent, facts })
  try {
    const applied = await apply()
    span?.note({ applied: applied.applied.length, conflicts: applied.conflicts.length })
    span?.end(clock.now(), applied.conflicts.length > 0 ? 'conflict' : undefined)
    return applied
  } catch (error) {
    span?.end(clock.now(), 'error')
    throw error
  }
}
