import type { Bus } from '@passover/bus'
import { readResult } from '@passover/operator'
import type { AnsweredPass, PassError } from '@passover/schemas'
import type { Caller } from '../auth/caller.js'
import type { OutputBudget } from '../http/output-budget.js'
import { hiddenReasonOfPass } from './output-visibility.js'

export interface VisibleOutcome {
  output?: Record<string, unknown>
  error?: PassError
  raw_output?: unknown
  withheld?: string
}

/** Reads the outcome of a pass as far as this caller may see it: an originator sees an output after its release, a person before that. */
export async function visibleOutcome(bus: Bus, caller: Caller, pass: AnsweredPass, budget: OutputBudget): Promise<VisibleOutcome> {
  const withheld = hiddenReasonOfPass(caller, pass)
  if (withheld !== undefined) return { withheld }
  const result = await readResult(bus, pass, budget.takes)
  if (!result) return {}
  if ('output' in result) return { output: result.output }
  return 'error' in result ? result : { withheld: `the return cannot be read: ${result.unreadable}` }
}
