import type { OpenPasses } from '@passover/core'
import type { Context } from './context.js'

/** What the parts of one timekeeper share: the dispatcher's context, and the fold of what is open. */
export interface Keeper extends Context {
  open: OpenPasses
}
