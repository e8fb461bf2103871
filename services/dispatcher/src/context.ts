import type { Counting } from '@passover/core'
import type { BaseContext } from './base-context.js'
import type { Budgets } from './budgets.js'
import type { LivePolicy } from './live-policy.js'
import type { Parents } from './parent.js'
import type { Registry } from './registry.js'
import type { WaterMark } from './water.js'

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
