import type { LimitCounters } from '@passover/core'
import type { BudgetStore } from '../limits/budget-store.js'
import type { LivePolicy } from '../limits/live-policy.js'
import type { StorageBackpressure } from '../limits/storage-backpressure.js'
import type { Registry } from '../registry/registry.js'
import type { BaseContext } from '../runtime/base-context.js'
import type { ParentLookup } from './parent-lookup.js'

/** State that the parts of one dispatcher share. */
export interface Context extends BaseContext {
  registry: Registry
  policy: LivePolicy
  parents: ParentLookup
  /** Counts active passes and rates for limits. */
  counters: LimitCounters
  budgets: BudgetStore
  backpressure: StorageBackpressure
}
