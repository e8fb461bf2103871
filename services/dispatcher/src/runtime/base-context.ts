import type { JournalRules } from '@passover/core'
import type { PassKey } from '@passover/schemas'
import type { DispatcherDeps } from './dependencies.js'
import type { DispatcherOptions } from './options.js'
import type { Stats } from './stats.js'

/** What every part of a dispatcher needs. */
export interface BaseContext {
  deps: DispatcherDeps
  options: DispatcherOptions
  rules: JournalRules
  stats: Stats
  /** Whether an earlier request without an answer asks for this pass; undefined: that is not known here. */
  asksEarlier: (key: PassKey, sequence: number) => boolean | undefined
  /** A new nonce for each attempt at publishing a step. */
  nonce: () => string
}
