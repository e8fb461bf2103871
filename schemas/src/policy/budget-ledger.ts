import { z } from 'zod'
import { count, filled, record, time } from '../base/bounded-types.js'
import { LIMITS } from '../base/limits.js'
import { budget } from './policy.js'

/** Passes below one budgeted root: with the longest names, and an account each, so many fit one message. */
export const LEDGER_PASSES = 1_000

/** `originator/subagent/id`. */
const passText = filled(LIMITS.short)

/**
 * What a tree of passes has used up of its budgets: one value of the bucket `budgets` by its root, written by
 * compare-and-set before a work step. Only dispatchers write it.
 */
export const budgetLedger = z.object({
  v: z.literal(1),
  /** By pass: what it was granted, and what the passes below it took of that. */
  accounts: record(passText, z.object({ limit: budget, passes: count, tokens: count, time_ms: count }), LEDGER_PASSES),
  /** By pass: what it took, from the account of its parent and from all above. */
  charges: record(
    passText,
    z.object({
      under: passText,
      tokens: count,
      time_ms: count,
      at: time,
      /** Its work step is known to be stored: it is never given back. */
      sure: z.literal(true).optional(),
    }),
    LEDGER_PASSES,
  ),
})
export type BudgetLedger = z.infer<typeof budgetLedger>
