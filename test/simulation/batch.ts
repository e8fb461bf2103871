import { planOf } from './plans/configs.js'
import { type Result, Simulation } from './simulation.js'

// Most errors are outcomes whose stacks nobody reads; `--seed` tells a seed with them.
Error.stackTraceLimit = 0

/** A child of run.ts: runs each seed that it is sent. */
process.on('message', (seed: number) => void runSeed(seed).then((result) => process.send?.(result)))

async function runSeed(seed: number): Promise<Result> {
  try {
    return await new Simulation(planOf(seed, process.env.SIMULATION_CONFIG || undefined)).run()
  } catch (error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    return { seed, digest: '', steps: 0, passes: 0, violations: [{ promise: 'P2', kind: 'broken', text, at: 0 }], tally: {} }
  }
}
