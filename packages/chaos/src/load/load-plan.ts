import type { Priority } from '@passover/schemas'
import type { SeededRandom } from '../seeded-random.js'

/** Instructions for a worker of the load tests. They are sent as the objective of the pass. */
export interface LoadPlan {
  /** Duration of the work in milliseconds. */
  ms: number
  throws?: boolean
  /** True to ignore the abort signal, so that the output comes late. */
  deaf?: boolean
  child?: ChildPlan
}

export interface ChildPlan {
  to: string
  /** False if the parent returns while the child is still running. */
  waits: boolean
  plan: LoadPlan
}

/** One request of an originator. */
export interface LoadRequest {
  plan: LoadPlan
  priority: Priority
  timeout_ms: number
  /** Milliseconds after the request at which it is cancelled. */
  cancel_after_ms?: number
  /** Number of concurrent requests for the same id. */
  times: number
}

export const BUILDER = 'builder'
export const HELPER = 'helper'
export const CHECKER = 'checker'
export const LOAD_AGENTS = [BUILDER, HELPER, CHECKER] as const

const LONG_TIMEOUT_MS = 40_000

/** Plans a request: mostly plain ones, and a share of each kind of difficulty that originators and workers can cause themselves. */
export function planRequest(seed: SeededRandom): LoadRequest {
  const made: LoadRequest = {
    plan: plan(seed),
    priority: seed.pick(['high', 'medium', 'medium', 'low']),
    timeout_ms: LONG_TIMEOUT_MS,
    times: 1,
  }
  const kind = seed.next()
  if (kind < 0.1) made.cancel_after_ms = seed.between(0, 400)
  else if (kind < 0.2) made.timeout_ms = seed.between(100, 700)
  else if (kind < 0.3) made.times = seed.between(2, 5)
  return made
}

function plan(seed: SeededRandom): LoadPlan {
  const made: LoadPlan = { ms: seed.between(0, 300) }
  if (seed.chance(5)) made.throws = true
  if (seed.chance(5)) made.deaf = true
  if (seed.chance(25)) made.child = child(seed)
  return made
}

function child(seed: SeededRandom): ChildPlan {
  const made: LoadPlan = { ms: seed.between(0, 200) }
  if (seed.chance(30)) made.child = { to: CHECKER, waits: true, plan: { ms: seed.between(0, 100) } }
  if (seed.chance(70)) return { to: HELPER, waits: true, plan: made }
  return { to: HELPER, waits: false, plan: { ...made, ms: 30_000 } }
}
