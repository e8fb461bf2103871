import type { Agent } from './agent.js'
import type { Giver } from './give-back.js'
import type { Told } from './worker-log.js'

/** What running an attempt needs of its worker. */
export interface WorkerContext extends Giver {
  /** Whose handler runs: children are its passes. */
  self: Agent
  told: Told
}
