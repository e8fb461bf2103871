import type { Counting, JournalRules } from '@passover/core'
import type { PassKey } from '@passover/schemas'
import type { Budgets } from './budgets.js'
import type { DispatcherDeps } from './deps.js'
import type { LivePolicy } from './live-policy.js'
import type { DispatcherOptions } from './options.js'
import type { Parents } from './parent.js'
import type { Registry } from './registry.js'
import type { Stats } from './stats.js'
import type { WaterMark } from './water.js'

/** What the parts of one dispatcher share. */
export interface Context {
  deps: DispatcherDeps
  options: DispatcherOptions
  rules: JournalRules
  stats: Stats
  registry: Registry
  policy: LivePolicy
  parents: Parents
  /** What limits are counted by. */
  counting: Counting
  budgets: Budgets
  water: WaterMark
  /** Whether an earlier request without an answer asks for this pass; undefined: that is not known here. */
  asksEarlier: (key: PassKey, sequence: number) => boolean | undefined
  /** A new nonce for each attempt at publishing a step. */
  nonce: () => string
}
