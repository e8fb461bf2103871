import type { JournalRules } from '@passover/core'
import type { PassKey } from '@passover/schemas'
import type { DispatcherDeps } from './dependencies.js'
import type { DispatcherOptions } from './options.js'
import type { Stats } from './stats.js'

/** Dependencies and state that every part of a dispatcher needs. */
export interface BaseContext {
  deps: DispatcherDeps
  options: DispatcherOptions
  rules: JournalRules
  stats: Stats
  /** Returns true if an earlier unanswered request has the same pass id, `undefined` if this dispatcher does not know. */
  asksEarlier: (key: PassKey, sequence: number) => boolean | undefined
  /** Returns a new nonce for each attempt to publish a step. */
  nonce: () => string
}
