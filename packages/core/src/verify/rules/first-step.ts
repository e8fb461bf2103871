import { type AgentRecord, HEADER, type PassError, type Step, SYSTEM, type WorkControl } from '@passover/schemas'
import type { AdmissionDecision, ParentPass } from '../../admission/types.js'
import { CLOCK_SKEW_MS, errorIn, partsIn } from '../state/message-bodies.js'
import { type PassState, type RecordedMessage, type RequestState, requestDigest, type VerifyRule } from '../state/recorded-message.js'
import type { VersionHistory } from '../state/version-history.js'
import { controlDiffers, outcomeText, type ParsedRequest, replayDecision } from './replay-decision.js'

export interface RuleViolation {
  rule: VerifyRule
  what: string
}

/** A first step, the request that it answers, and the data to judge both by. */
export interface FirstStep {
  recorded: RecordedMessage
  step: Step
  asked: RequestState
  pass: PassState
  parent: PassState | undefined
  /** True if the parent cannot be read, because it was erased or precedes the verified range. Checks that depend on it are skipped. */
  parent_unseen: boolean
  versions: VersionHistory
  id_window_ms: number
}

export type Judged = { kind: 'recomputed' | 'as recorded' } | { kind: 'fault'; objection: RuleViolation }

/** Checks that the first step follows from the request, the recorded policy and the stored parent (P3, P5). */
export function judgeBeginning(begin: FirstStep): Judged {
  const { step, asked } = begin
  const reading = asked.recorded.reading()
  const wrong = answerFault(begin)
  if (wrong) return { kind: 'fault', objection: wrong }
  if (step.kind === 'return') return judgeRefusal(begin, reading.ok ? reading.value : undefined)
  if (!reading.ok) return fault('digest', `begins a pass although its request is not valid: ${reading.error.message}`)
  const control = begin.pass.control
  if (!control) return fault('policy', 'its control frame cannot be read')
  return judgeAdmitted(begin, reading.value, control)
}

/** Checks that the step names this request, by time and by digest. */
function answerFault({ step, asked }: FirstStep): RuleViolation | undefined {
  const { fact, recorded } = asked
  if (step.requested_at !== undefined && step.requested_at !== fact.time) {
    return {
      rule: 'digest',
      what: `records ${step.requested_at} as the time of its request, but request ${fact.sequence} was stored at ${fact.time}`,
    }
  }
  const reading = recorded.reading()
  if (step.digest !== undefined && step.digest !== requestDigest(recorded)) {
    return { rule: 'digest', what: `has a digest that does not match request ${fact.sequence}, which it answers` }
  }
  if (reading.ok && !isBad(step) && reading.value.request.id !== step.key.id) {
    return { rule: 'digest', what: `answers request ${fact.sequence}, which has the id ${reading.value.request.id}` }
  }
  return undefined
}

function judgeAdmitted(begin: FirstStep, reading: ParsedRequest, control: WorkControl): Judged {
  const { step, asked, versions, recorded } = begin
  const document = versions.document(control.policy_version, step.sequence)
  if (!document) {
    if (!versions.whole) return { kind: 'as recorded' }
    return fault('policy', `was decided by policy version ${control.policy_version}, which had not been published`)
  }
  const parts = recorded.partFault(partsIn(recorded))
  if (parts) return fault('parts', parts)
  if (begin.parent_unseen) return { kind: 'as recorded' }
  let first: RuleViolation | undefined
  for (const agents of candidates(begin)) {
    const again = replayDecision({
      fact: asked.fact,
      reading,
      policy: { version: control.policy_version, document },
      agents,
      parent: parentOf(begin, control),
      id_window_ms: begin.id_window_ms,
      now: asked.fact.time,
      return_id: control.return_id,
    })
    const objection = admittedFault(step, control, again)
    if (!objection) return { kind: 'recomputed' }
    first ??= objection
  }
  return first ? { kind: 'fault', objection: first } : { kind: 'recomputed' }
}

function admittedFault(step: Step, control: WorkControl, again: AdmissionDecision): RuleViolation | undefined {
  const named = policyNamed(control.policy_version)
  if (again.kind === 'refuse') return { rule: 'policy', what: `was admitted, but ${named} refuses it: ${outcomeText(again)}` }
  if (again.kind === 'later') return undefined
  if (step.kind === 'work' && again.kind === 'hold')
    return { rule: 'policy', what: `was dispatched, but ${named} requires approval by a person first` }
  if (step.kind === 'held' && again.kind === 'admit') return { rule: 'policy', what: `is held, but ${named} does not require approval` }
  const differs = controlDiffers(control, again.control)
  return differs === undefined ? undefined : { rule: 'policy', what: `does not match its request under ${named}: ${differs}` }
}

/** Describes a policy version. Settings local to a dispatcher are not recorded, so decisions by them cannot be distinguished from arbitrary ones. */
function policyNamed(version: number): string {
  if (version > 0) return `policy version ${version}`
  return 'policy version 0 (the defaults: no policy was published, and a policy from PASSOVER_POLICY cannot be verified)'
}

/** Refusals that depend only on policy, chain and registry. They can be recomputed. */
const BY_RULE: ReadonlySet<string> = new Set(['E001', 'E002', 'E003', 'E004', 'E012', 'E013'])
/** Allowed difference between a dispatcher's clock when it decides and the stored time of the first step. */
const CLOCK_MS = 60_000

function judgeRefusal(begin: FirstStep, reading: ParsedRequest | undefined): Judged {
  const { step, asked, recorded } = begin
  const error = errorIn(recorded)
  if (!error) return fault('return', 'ends the pass with a malformed error')
  if (step.code !== error.code) return fault('return', `has code ${step.code ?? 'none'} in its header, but ${error.code} in its body`)
  if (error.code === 'E005') return judgeBad(begin, reading, error)
  if (!reading) return fault('digest', `was refused with ${error.code}, but request ${asked.fact.sequence} is malformed`)
  if (error.code === 'E010' && error.details?.admitted === false) return neverAdmitted(begin, reading)
  if (!BY_RULE.has(error.code) || isOfTheMoment(error)) return { kind: 'as recorded' }
  const version = Number(recorded.header(HEADER.policy) ?? 0)
  const document = begin.versions.document(version, step.sequence)
  if (!document || begin.parent_unseen) return { kind: 'as recorded' }
  // The dispatcher decided between these two times. The parent's deadline may lie between them.
  const tries = candidates(begin).flatMap((agents) => [step.time, asked.fact.time].map((now) => ({ agents, now })))
  let first: AdmissionDecision | undefined
  for (const { agents, now } of tries) {
    const again = replayDecision({
      fact: asked.fact,
      reading,
      policy: { version, document },
      agents,
      parent: parentNamed(begin, reading),
      id_window_ms: begin.id_window_ms,
      now,
      return_id: '',
    })
    if (again.kind === 'refuse' && (again.error.code === error.code || again.error.code === 'E010')) return { kind: 'recomputed' }
    first ??= again
  }
  return fault(
    'policy',
    `was refused with ${error.code}, but ${policyNamed(version)} gives a different decision: ${outcomeText(first as AdmissionDecision)}`,
  )
}

/**
 * Returns true for a refusal that depends on what the dispatcher saw at that moment: a parent's state, a journal's length, the size of a message, an
 * approval.
 */
export function isOfTheMoment({ code, details }: PassError): boolean {
  if (!details) return true
  if (code === 'E013') return 'parent' in details || 'approval' in details || 'id' in details
  return false
}

/** Judges an E005: malformed, id used before, expired, or from the future. */
function judgeBad(begin: FirstStep, reading: ParsedRequest | undefined, error: PassError): Judged {
  const { step, asked } = begin
  if (!reading) return { kind: 'recomputed' }
  if (isBad(step))
    return asked.other || error.details?.reason === 'id_used'
      ? { kind: 'as recorded' }
      : fault('policy', `was answered as malformed, but request ${asked.fact.sequence} is well-formed`)
  const nothing = begin.versions.document(0, step.sequence) ?? {}
  const isRefused = (now: number) => {
    const again = replayDecision({
      fact: asked.fact,
      reading,
      policy: { version: 0, document: nothing },
      agents: { originator: undefined, subagent: undefined },
      parent: undefined,
      id_window_ms: begin.id_window_ms,
      now,
      return_id: '',
    })
    return again.kind === 'refuse' && again.error.code === 'E005'
  }
  if ([step.time, step.time + CLOCK_MS, asked.fact.time].some(isRefused)) return { kind: 'recomputed' }
  return fault('policy', `was refused because its id was expired or not yet valid, but ${step.key.id} was neither`)
}

/** Judges the end of a request that was never admitted. The timekeeper must not end it before its timeout. */
function neverAdmitted({ step, asked }: FirstStep, { request }: ParsedRequest): Judged {
  const due = asked.fact.time + (request.timeout_ms ?? 0)
  if (step.time + CLOCK_SKEW_MS >= due) return { kind: 'as recorded' }
  return fault('policy', `was ended as never admitted ${due - step.time} ms before its deadline`)
}

function candidates({ step, versions, asked }: FirstStep): { originator: AgentRecord | undefined; subagent: AgentRecord | undefined }[] {
  const { originator, subagent } = asked.fact
  const above = versions.records(originator, step.time)
  const below = versions.records(subagent, step.time)
  return above.flatMap((one) => below.map((other) => ({ originator: one, subagent: other })))
}

/** Returns the parent as the dispatcher saw it: open at the step that the proof names, whatever was stored since (rule 3). */
function parentOf({ parent }: FirstStep, control: WorkControl): ParentPass | undefined {
  return parent && control.proof !== undefined ? asOpen(parent, control.proof) : undefined
}

/** Returns the parent that a request names, as of its proof. */
export function parentNamed({ parent }: FirstStep, { request }: ParsedRequest): ParentPass | undefined {
  return parent && request.parent ? asOpen(parent, request.parent.proof) : undefined
}

function asOpen({ journal, control, proofs }: PassState, proof: number): ParentPass | undefined {
  if (!control || !('work' in journal) || !journal.work || !proofs.includes(proof)) return undefined
  const { work } = journal
  const deadline = work.time + (work.timeout_ms ?? control.timeout_ms)
  const attempt = proofs.filter((sequence) => sequence >= work.sequence).indexOf(proof) + 1
  return { control, journal: { state: 'open', attempt, work, deadline, last: proof, valid: proof } }
}

function isBad({ key, by }: Step): boolean {
  return by === SYSTEM && key.id.startsWith('bad-')
}

function fault(rule: VerifyRule, what: string): Judged {
  return { kind: 'fault', objection: { rule, what } }
}
