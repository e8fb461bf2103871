import { z } from 'zod'
import { count, filled, record, time } from '../base/bounded-types.js'
import { LIMITS } from '../base/limits.js'
import { budget } from './policy.js'

/** Maximum number of passes below one budgeted root. With the longest names and an account each, this number fits into one message. */
export const LEDGER_PASSES = 1_000

/** `originator/subagent/id`. */
const passText = filled(LIMITS.short)

/**
 * Budget use of a tree of passes: one value in the bucket `budgets`, keyed by the root, written by compare-and-set before a work step. Only
 * dispatchers write it.
 */
export const budgetLedger = z.object({
  v: z.literal(1),
  /** For each pass: its grant, and the part of the grant that its descendants used. */
  accounts: record(passText, z.object({ limit: budget, passes: count, tokens: count, time_ms: count }), LEDGER_PASSES),
  /** For each pass: its charge to the account of its parent and to all accounts above. */
  charges: record(
    passText,
    z.object({
      under: passText,
      tokens: count,
      time_ms: count,
      at: time,
      /** Set if the work step is known to be stored: the charge is never released. */
      sure: z.literal(true).optional(),
    }),
    LEDGER_PASSES,
  ),
})
export type BudgetLedger = z.infer<typeof budgetLedger>
