import type { Part, PassError, Step } from '@passover/schemas'
import { openControl } from '../../codec/control-codec.js'
import { isBody } from '../../codec/output-codec.js'
import type { PassState, RecordedMessage } from './recorded-message.js'

/** Maximum difference between the clocks of a service and the server, ms. */
export const CLOCK_SKEW_MS = 1_000

export function errorIn(recorded: RecordedMessage): PassError | undefined {
  const { error } = bodyOf(recorded)
  return typeof error === 'object' && error !== null && 'code' in error ? (error as PassError) : undefined
}

export function bodyOf(recorded: RecordedMessage): Record<string, unknown> {
  const body = recorded.body()
  return typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {}
}

/** Sets the control frame of a pass from a held or work step. */
export function setFrame(pass: PassState, recorded: RecordedMessage, step: Step): void {
  if (step.kind !== 'work' && step.kind !== 'held') return
  const { control } = bodyOf(recorded)
  const opened = isBody(control) && isBody(control.policy) ? openControl(control as never, step) : undefined
  pass.control = opened
  if (step.kind === 'held') pass.held_control = opened
}

/** Returns the parts of a work step or a return. */
export function partsIn(recorded: RecordedMessage): Part[] {
  const { parts } = bodyOf(recorded)
  return Array.isArray(parts) && parts.every(isBody) ? (parts as unknown as Part[]) : []
}
