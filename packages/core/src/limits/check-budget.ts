import type { Budget, PassError } from '@passover/schemas'
import { passError } from '../errors.js'
import { smallerBudget } from '../policy/narrowing.js'
import type { ChargeResult } from './budget-ledger.js'

const ANOTHER_TREE = 'pass it over outside of this tree of passes, or begin the tree anew with a larger budget'

/** What bounds a pass by budget: its own allowance, and what those below it are granted. */
export interface Budgeted {
  /** The smallest of what policy, request and parent say. */
  allowance: Budget | undefined
  granted: Budget | undefined
  /** The most time that it may take itself. */
  time_ms: number
}

/**
 * A budget counts what happens below the pass that has it: passes, their contexts' tokens (4 bytes each), their timeouts. The
 * pass's own context and timeout must fit by themselves. Once it took from the budgets above, their rest is what it may grant.
 */
export function budgeted(own: (Budget | undefined)[], parent: Budget | undefined, charged: ChargeResult | undefined): Budgeted {
  const allowance = smallerBudget(...own, childBudget(parent))
  const grant = charged?.ok ? charged.grant : undefined
  return {
    allowance,
    granted: grant ? smallerBudget(...own, grant.rest) : allowance,
    time_ms: Math.min(allowance?.time_ms ?? Number.POSITIVE_INFINITY, grant?.time_ms ?? Number.POSITIVE_INFINITY),
  }
}

/** E014 where nothing is left of a budget. */
export function budgetFault({ allowance }: Budgeted, charged: ChargeResult | undefined): PassError | undefined {
  if (charged?.ok === false && 'lost' in charged) {
    const message =
      'What its tree took of its budget is not known any more (the bucket of budgets was lost), so nothing more is granted of it'
    return spent(message, { field: 'budget', lost: true })
  }
  if (charged?.ok === false) {
    const { field, limit, count } = charged.used_up
    return spent(`The ${field} of ${limit} has not enough left for it (${count} taken)`, { field, limit, count })
  }
  if (allowance?.passes !== undefined && allowance.passes < 0) return spent('The budget of passes is used up', { field: 'budget.passes' })
  if (allowance?.time_ms === 0) return spent('The budget of time is used up', { field: 'budget.time_ms' })
  return undefined
}

/** What a tree took stays taken: to ask again below the same pass gives the same answer. */
function spent(message: string, details: Record<string, unknown>): PassError {
  return passError('E014', message, { ...details, recoverable: false, mend: ANOTHER_TREE })
}

/** What a parent's budget leaves a child at most; the ledger counts siblings, this bounds depth. */
function childBudget(parent: Budget | undefined): Budget | undefined {
  return parent?.passes === undefined ? parent : { ...parent, passes: parent.passes - 1 }
}
