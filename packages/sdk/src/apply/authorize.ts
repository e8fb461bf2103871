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

/** The modifications of a return that may be applied and the person who approved them, or the reason for a refusal. */
export type AuthorizationResult = { ok: true; taken: NumberedModification[]; by: string | undefined } | { ok: false; error: PassOverError }

/** A pass as the audit service knows it, with the modifications of its output. */
export interface AuthorizationInput {
  key: PassKey
  status: string
  control: Pick<WorkControl, 'auto_apply_on_success' | 'policy' | 'rights'> | undefined
  /** Error that makes the return invalid for the audit service. */
  unacceptable: PassError | undefined
  /** True if a person denied the release of the output. */
  withheld: boolean
  /** The valid decision on item `apply` for this return. */
  decision: AnsweredDecision | undefined
  all: readonly NumberedModification[]
}

/** Returns the decision on the application of the return with these bytes. */
export function applyDecision({ decisions }: Pick<AnsweredPass, 'decisions'>, data: Uint8Array): AnsweredDecision | undefined {
  const digest = sha256(data)
  return decisions.find((one) => one.item === 'apply' && one.digest === digest)
}

/** Returns the reason why nothing of an output may be applied even if its changes were approved. */
export function applyBlockedReason({
  key,
  status,
  unacceptable,
  withheld,
}: Omit<AuthorizationInput, 'control' | 'decision' | 'all'>): PassOverError | undefined {
  if (withheld) return new PassOverError('E013', 'the output was not released', { ...key, approval: 'denied' })
  if (unacceptable) return PassOverError.from(unacceptable)
  if (status !== 'awaiting_release') return undefined
  return new PassOverError('E013', 'the output cannot be applied before it is released', { ...key })
}

/**
 * Returns the modifications that the originator may apply: those that a person's decision approved (docs/architecture/protocol.md#release-and-apply),
 * or all if the policy of the pass requires no approval. `only` can remove modifications, but cannot add modifications that were not approved (E013).
 */
export function authorizeApply(input: AuthorizationInput, only?: readonly number[]): AuthorizationResult {
  const { key, control, decision, all } = input
  const no = (why: string, details: object = {}): AuthorizationResult => ({
    ok: false,
    error: new PassOverError('E013', why, { ...key, ...details }),
  })
  const never = applyBlockedReason(input)
  if (never) return { ok: false, error: never }
  if (decision?.verdict === 'deny') {
    const reason = decision.reason ? `: ${decision.reason}` : ''
    return no(`${decision.person}${nameMarks(decision)} denied the application${reason}`, { approval: 'denied', person: decision.person })
  }
  if (!decision && control?.policy.require_user_approval !== false) return no('the application of this output has no approval')
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

/**
 * Returns the modifications to apply without confirmation: only if request, policy, output and rights all allow it, and never against a stored
 * decision.
 */
export function authorizeAutoApply(
  input: AuthorizationInput,
  output: Pick<WorkOutput, 'artifacts' | 'auto_apply_allowed'>,
): NumberedModification[] {
  const { control, decision, all, withheld, unacceptable } = input
  if (!control || withheld || unacceptable || !mayAutoApply(output, control)) return []
  return decision ? takenModifications(all, decision) : [...all]
}
