import type { Counting } from '@passover/core'
import type { Budgets } from '../limits/budget-store.js'
import type { LivePolicy } from '../limits/live-policy.js'
import type { WaterMark } from '../limits/storage-backpressure.js'
import type { Registry } from '../registry/registry.js'
import type { BaseContext } from '../runtime/base-context.js'
import type { Parents } from './parent-lookup.js'

/** What the parts of one dispatcher share. */
export interface Context extends BaseContext {
  registry: Registry
  policy: LivePolicy
  parents: Parents
  /** What limits are counted by. */
  counting: Counting
  budgets: Budgets
  water: WaterMark
}
