import type { Topology } from '../cluster/topology.js'
import type { PlannedFault } from './schedule.js'

/** Result of a fault: a description, or the reason why it was skipped. */
export type FaultResult = { done: string } | { skipped: string }

/** Injects a fault, waits for the planned time, and undoes it. Resolves when the fault itself is over, not when everything has recovered. */
export type Fault = (topology: Topology, planned: PlannedFault, stop: AbortSignal) => Promise<FaultResult>

/** Thrown if the server lost messages that it had acknowledged. Such a run proves nothing, for or against a promise (decision 86). */
export class InvalidRunError extends Error {}
