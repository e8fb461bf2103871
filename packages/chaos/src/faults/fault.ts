import type { Topology } from '../cluster/topology.js'
import type { PlannedFault } from './schedule.js'

/** What a fault did: undefined where there was nothing to hurt (say why). */
export type FaultResult = { done: string } | { skipped: string }

/** Hurts, waits the planned time, and mends. It returns when the trouble itself is over, not when all have recovered. */
export type Fault = (arena: Topology, planned: PlannedFault, stop: AbortSignal) => Promise<FaultResult>

/** The server lost what it had acknowledged, and a run in which that happened says nothing, for or against a promise (decision 86). */
export class InvalidRunError extends Error {}
