import { mayAutoApply, type NumberedModification, PassOverError, takenModifications } from '@passover/core'
import {
  type AnsweredDecision,
  type AnsweredPass,
  type PassError,
  type PassKey,
  sha256,
  type WorkControl,
  type WorkOutput,
} from '@passover/schemas'
import { nameMarks } from '../runtime/format.js'

/** What may be applied of a return, and who said so. */
export type AuthorizationResult = { ok: true; taken: NumberedModification[]; by: string | undefined } | { ok: false; error: PassOverError }

/** A pass as the audit answered, and its output's modifications. */
export interface ApplyAuthorization {
  key: PassKey
  status: string
  control: Pick<WorkControl, 'auto_apply_on_success' | 'policy' | 'rights'> | undefined
  /** Why the return is none for its originator, as the audit judged it. */
  unacceptable: PassError | undefined
  /** Whether a person did not release the output. */
  withheld: boolean
  /** The counted decision of item `apply` about this very return. */
  decision: AnsweredDecision | undefined
  all: readonly NumberedModification[]
}

/** The decision about the application of a return that was stored as these bytes. */
export function applyDecision({ decisions }: Pick<AnsweredPass, 'decisions'>, data: Uint8Array): AnsweredDecision | undefined {
  const digest = sha256(data)
  return decisions.find((one) => one.item === 'apply' && one.digest === digest)
}

/** Why nothing of an output may be applied, whoever approves of its changes. */
export function applyBlockedReason({
  key,
  status,
  unacceptable,
  withheld,
}: Omit<ApplyAuthorization, 'control' | 'decision' | 'all'>): PassOverError | undefined {
  if (withheld) return new PassOverError('E013', 'the output was not released', { ...key, approval: 'denied' })
  if (unacceptable) return PassOverError.from(unacceptable)
  if (status !== 'awaiting_release') return undefined
  return new PassOverError('E013', 'the output awaits its release, and is not applied before', { ...key })
}

/**
 * What the originator may apply: exactly what a person's decision took (docs/architecture/protocol.md#release-and-apply), or everything where the policy of the
 * pass says that no approval is needed. `only` narrows that; it takes nothing that the decision did not. E013 else.
 */
export function authorizeApply(judged: ApplyAuthorization, only?: readonly number[]): AuthorizationResult {
  const { key, control, decision, all } = judged
  const no = (why: string, details: object = {}): AuthorizationResult => ({
    ok: false,
    error: new PassOverError('E013', why, { ...key, ...details }),
  })
  const never = applyBlockedReason(judged)
  if (never) return { ok: false, error: never }
  if (decision?.verdict === 'deny') {
    const reason = decision.reason ? `: ${decision.reason}` : ''
    return no(`${decision.person}${nameMarks(decision)} denied the application${reason}`, { approval: 'denied', person: decision.person })
  }
  if (!decision && control?.policy.require_user_approval !== false) return no('nobody approved the application of this output')
  const taken = decision ? takenModifications(all, decision) : [...all]
  const unknown = only?.filter((number) => !all.some((one) => one.number === number)) ?? []
  if (unknown.length > 0) return { ok: false, error: new PassOverError('E005', `there is no modification ${unknown.join(', ')}`, { only }) }
  const beyond = only?.filter((number) => !taken.some((one) => one.number === number)) ?? []
  if (beyond.length > 0)
    return no(`${decision?.person}${nameMarks({ ...decision })} did not approve modification ${beyond.join(', ')}`, {
      person: decision?.person,
    })
  return { ok: true, taken: only ? taken.filter(({ number }) => only.includes(number)) : taken, by: decision?.person }
}

/** What is applied without asking: only where request, policy, output and rights all allow it, and never against a decision that stands. */
export function authorizeAutoApply(
  judged: ApplyAuthorization,
  output: Pick<WorkOutput, 'artifacts' | 'auto_apply_allowed'>,
): NumberedModification[] {
  const { control, decision, all, withheld, unacceptable } = judged
  if (!control || withheld || unacceptable || !mayAutoApply(output, control)) return []
  return decision ? takenModifications(all, decision) : [...all]
}
