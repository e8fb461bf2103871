/**
 * Stage 3 of a pass: the messages that the dispatcher publishes. In: a decision and the position in the journal.
 * Out: a `work`, `held` or `return` step, ready to publish.
 */

import { encode, intern, type PublishMessage, type Subjects } from '@passover/bus'
import { countToken, packControl } from '@passover/core'
import {
  HEADER,
  type HeldEnvelope,
  keyText,
  type Part,
  type PassError,
  type PassKey,
  type ReturnEnvelope,
  WIRE_VERSION,
  type WorkControl,
  type WorkEnvelope,
} from '@passover/schemas'

export type ReplyType = 'msgpack' | 'json'

/** Reference to a request, which every first step that answers it carries. */
export interface RequestRef {
  digest: string
  /** Stream sequence and stored time (server ms) of the request. */
  request_sequence: number
  requested_at: number
  reply_type: ReplyType
  traceparent?: string | undefined
  /** Version of the policy under which a refusal was decided. */
  policy_version?: number | undefined
}

/** Position of a new step in its journal, and the nonce that identifies its publisher. */
export interface StepPosition {
  subjects: Subjects
  key: PassKey
  /** Sequence of the journal's last step, 0 if it has none. */
  guard: number
  nonce: string
  /** True if this is the first step of the pass: it begins the pass, or ends a pass that never began. */
  first?: boolean
}

/** Builds the work step, which admits the pass. Parts are sent unchanged. */
export function workStep(position: StepPosition, work: { control: WorkControl; parts: Part[] }, traceparent?: string): PublishMessage {
  const { control, parts } = work
  const frame = packControl(control, 'work')
  intern(frame.policy)
  const body: WorkEnvelope = { v: WIRE_VERSION, control: frame, parts }
  const headers = admissionHeaders(position, control, traceparent)
  headers[HEADER.timeout] = String(control.timeout_ms)
  return {
    subject: position.subjects.work(position.key, control.priority),
    headers,
    data: encode(body, 'msgpack'),
    guard: { subject: position.subjects.journal(position.key), sequence: position.guard },
  }
}

/** Marks a first step that is stored after messages that do not count. Its guard is then not 0, so it does not show that the step is the first. */
function firstStepHeader({ first, guard }: StepPosition): Record<string, string> {
  return first && guard > 0 ? { [HEADER.first]: '1' } : {}
}

/** Builds the held step, after which a person decides. The context stays in the request that the step names. */
export function heldStep(position: StepPosition, held: { control: WorkControl; expires_ms: number }, traceparent?: string): PublishMessage {
  const { control, expires_ms } = held
  const frame = packControl(control, 'held')
  intern(frame.policy)
  const body: HeldEnvelope = { v: WIRE_VERSION, control: frame, expires_ms }
  const headers = admissionHeaders(position, control, traceparent)
  headers[HEADER.expires] = String(expires_ms)
  return {
    subject: position.subjects.held(position.key),
    headers,
    data: encode(body, 'msgpack'),
    guard: { subject: position.subjects.journal(position.key), sequence: position.guard },
  }
}

/** Builds a return by the system. As a first step it names the request that it answers and carries its digest (rule 6). */
export function systemReturn(position: StepPosition, error: PassError, request: Partial<RequestRef>): PublishMessage {
  const body: ReturnEnvelope = { v: WIRE_VERSION, error }
  const json = request.reply_type === 'json'
  return {
    subject: position.subjects.return(position.key, 'passover'),
    headers: {
      [HEADER.code]: error.code,
      [HEADER.nonce]: position.nonce,
      ...(json && { [HEADER.contentType]: 'application/json' }),
      ...(request.digest !== undefined && { [HEADER.digest]: request.digest }),
      ...(request.request_sequence !== undefined && { [HEADER.request]: String(request.request_sequence) }),
      ...firstStepHeader(position),
      ...(request.requested_at !== undefined && { [HEADER.requestedAt]: String(request.requested_at) }),
      ...(request.policy_version !== undefined && { [HEADER.policy]: String(request.policy_version) }),
      ...(request.traceparent !== undefined && { [HEADER.traceparent]: request.traceparent }),
    },
    data: encode(body, json ? 'json' : 'msgpack'),
    guard: { subject: position.subjects.journal(position.key), sequence: position.guard },
  }
}

function admissionHeaders(position: StepPosition, control: WorkControl, traceparent: string | undefined): Record<string, string> {
  const headers: Record<string, string> = {
    [HEADER.digest]: control.digest,
    [HEADER.request]: String(control.request_sequence),
    [HEADER.requestedAt]: String(control.requested_at),
    [HEADER.nonce]: position.nonce,
    ...firstStepHeader(position),
  }
  const counted = countToken(control)
  if (counted !== undefined) headers[HEADER.session] = counted
  if (control.parent) headers[HEADER.parent] = keyText(control.parent)
  if (control.proof !== undefined) headers[HEADER.proof] = String(control.proof)
  if (control.retry_of !== undefined) headers[HEADER.retryOf] = control.retry_of
  if (control.reply_type === 'json') headers[HEADER.reply] = 'json'
  if (traceparent !== undefined) headers[HEADER.traceparent] = traceparent
  return headers
}
