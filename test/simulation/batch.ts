import { planOf } from './configs.js'
import { type Result, Simulation } from './simulation.js'

/** A child of run.ts: runs the seeds that it is sent, one answer each, so that it can be taken up where it was left. */
process.on('message', (seeds: number[]) => void runAll(seeds))

async function runAll(seeds: number[]): Promise<void> {
  const results: Result[] = []
  for (const seed of seeds) results.push(await runSeed(seed))
  process.send?.(results)
}

async function runSeed(seed: number): Promise<Result> {
  try {
    return await new Simulation(planOf(seed, process.env.SIMULATION_CONFIG || undefined)).run()
  } catch (error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    return { seed, digest: '', steps: 0, passes: 0, violations: [{ promise: 'P2', kind: 'broken', text, at: 0 }], tally: {} }
  }
}
