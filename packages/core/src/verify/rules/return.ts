import { type PassError, type Step, SYSTEM, type WorkOutput } from '@passover/schemas'
import { outputIn } from '../../codec/output-codec.js'
import { hasReferences, withPartPlaceholders } from '../../results/part-placeholders.js'
import { acceptError, acceptReturn } from '../../results/validate-return.js'
import { bodyOf, CLOCK_SKEW_MS, errorIn } from '../state/message-bodies.js'
import type { PassState, RecordedMessage } from '../state/recorded-message.js'
import { deniedBy } from './approval.js'

/** Result of reading a return: an output that every reader accepts, or why readers treat it as an error. */
export interface Returned {
  output?: WorkOutput
  /** True if the message contains the complete output. */
  whole: boolean
  remark?: string
  fault?: string
}

/** Judges a worker's return by the rule that worker, originator and audit use. An invalid return is read as an error; the raw output is kept. */
export function judgeReturn(recorded: RecordedMessage, step: Step, pass: PassState): Returned {
  const body = bodyOf(recorded)
  if (step.by === SYSTEM) return { whole: true, ...systemEnd(recorded, step, pass) }
  if ('error' in body) {
    const { ok, error } = acceptError(body.error, step.by)
    return ok ? { whole: true } : { whole: true, remark: `reads as ${error.code}: ${error.message}` }
  }
  const output = outputIn(body, step.key)
  const accepted = acceptReturn(withPartPlaceholders(output), step.key, { rights: pass.control?.rights })
  const whole = !hasReferences(output)
  if (!accepted.ok) return { whole, remark: `reads as ${accepted.error.code}: ${accepted.error.message}` }
  return { whole, output: accepted.output }
}

/** Checks that the end of a pass by the system is justified. */
function systemEnd(recorded: RecordedMessage, step: Step, pass: PassState): { fault?: string } {
  const error = errorIn(recorded)
  if (!error) return { fault: 'ends the pass with a malformed error' }
  if (step.code !== error.code) return { fault: `has code ${step.code ?? 'none'} in its header, but ${error.code} in its body` }
  const what = endFault(step, error, pass)
  return what === undefined ? {} : { fault: what }
}

function endFault(step: Step, { code, details }: PassError, pass: PassState): string | undefined {
  const { journal } = pass
  if (code === 'E010' && journal.state === 'open' && step.time + CLOCK_SKEW_MS < journal.deadline) {
    return `ends the pass as timed out ${journal.deadline - step.time} ms before its deadline`
  }
  if (code === 'E043' && !pass.cancelled && !pass.erased && details?.because !== 'parent' && !pass.control?.parent)
    return 'ends the pass as cancelled, but nobody cancelled it'
  if (code !== 'E013' || journal.state !== 'held') return undefined
  if (details?.approval === 'denied' && !pass.erased && !deniedBy(pass, details.person))
    return `records a denial by ${String(details.person)}, who did not deny it`
  const { held } = journal
  const bound = Math.min(held.time + (held.expires_ms ?? 0), pass.held_control?.parent_deadline ?? Number.POSITIVE_INFINITY)
  if (details?.approval === 'expired' && !('person' in details) && step.time + CLOCK_SKEW_MS < bound) {
    return `ends the pass as not approved in time ${bound - step.time} ms before its approval expired`
  }
  return undefined
}
