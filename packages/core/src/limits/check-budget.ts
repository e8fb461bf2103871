import type { Budget, PassError } from '@passover/schemas'
import { passError } from '../errors.js'
import { smallerBudget } from '../policy/narrowing.js'
import type { ChargeResult } from './budget-ledger.js'

const ANOTHER_TREE = 'request it outside of this tree, or start a new tree with a larger budget'

/** Budget limits of a pass: its own allowance, and what the passes below it are granted. */
export interface Budgeted {
  /** The smallest of the budgets of policy, request and parent. */
  allowance: Budget | undefined
  granted: Budget | undefined
  /** Maximum time of the pass itself, in milliseconds. */
  time_ms: number
}

/**
 * Computes the budget of a pass. A budget counts what happens below the pass that has it: passes, tokens of their contexts (4 bytes each), and
 * timeouts. The pass's own context and timeout must fit too, but are not counted. After a charge, the rest of the budgets above limits what it may
 * grant.
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

/** Returns E014 if a budget is used up. */
export function budgetFault({ allowance }: Budgeted, charged: ChargeResult | undefined): PassError | undefined {
  if (charged?.ok === false && 'lost' in charged) {
    const message = 'The budget that its tree has used is unknown because the bucket of budgets was lost, so no more of it is granted'
    return spent(message, { field: 'budget', lost: true })
  }
  if (charged?.ok === false) {
    const { field, limit, count } = charged.used_up
    return spent(`The ${field} of ${limit} does not have enough left (${count} used)`, { field, limit, count })
  }
  if (allowance?.passes !== undefined && allowance.passes < 0) return spent('The budget of passes is used up', { field: 'budget.passes' })
  if (allowance?.time_ms === 0) return spent('The budget of time is used up', { field: 'budget.time_ms' })
  return undefined
}

/** Charges of a tree are permanent, so a new request below the same pass fails in the same way. */
function spent(message: string, details: Record<string, unknown>): PassError {
  return passError('E014', message, { ...details, recoverable: false, mend: ANOTHER_TREE })
}

/** Returns the most that a parent's budget leaves for a child. The ledger counts siblings; this limits depth. */
function childBudget(parent: Budget | undefined): Budget | undefined {
  return parent?.passes === undefined ? parent : { ...parent, passes: parent.passes - 1 }
}
