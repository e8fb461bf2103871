import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { MUTANTS } from './mutants/mutants.js'
import { planOf } from './plans/configs.js'
import type { Plan } from './plans/plan.js'
import { freshSeed, runSeeds } from './pool.js'
import { shrink } from './shrink.js'
import { type Result, Simulation } from './simulation.js'

/**
 * `npm run simulate`: the real dispatcher, timekeeper, worker, originator and audit over a simulated server, network and clock.
 * --seeds N (10,000), --from S (drawn by the clock), --seed X (one, told at length, and shrunk where it fails), --processes P,
 * --mutant NAME (mutants.ts; in its own configuration), --config NAME (configs.ts), --plan FILE (one, as a failing seed was shrunk to).
 */
const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '10000' },
    from: { type: 'string', default: String(freshSeed()) },
    seed: { type: 'string' },
    plan: { type: 'string' },
    mutant: { type: 'string' },
    config: { type: 'string' },
    processes: { type: 'string', default: String(Math.min(2, availableParallelism())) },
  },
})

const say = (line: string) => void process.stdout.write(`${line}\n`)

const config = values.config ?? (values.mutant === undefined ? undefined : MUTANTS[values.mutant]?.config)

process.exitCode = values.seed === undefined && values.plan === undefined ? await many() : await one()

async function many(): Promise<number> {
  const began = Date.now()
  const totals = { seeds: 0, steps: 0, passes: 0, violations: 0 }
  const tally: Record<string, number> = {}
  let told = began
  const onResult = (result: Result): boolean => {
    totals.seeds += 1
    totals.steps += result.steps
    totals.passes += result.passes
    for (const [what, count] of Object.entries(result.tally)) tally[what] = (tally[what] ?? 0) + count
    for (const { promise, kind, text, at } of result.violations) {
      totals.violations += 1
      say(`seed ${result.seed}: ${promise} ${kind} at ${Math.round(at)} ms: ${text}`)
    }
    if (Date.now() - told > 5_000) {
      told = Date.now()
      say(`${totals.seeds} schedules, ${totals.passes} passes, ${totals.violations} violations, ${Math.round((told - began) / 1000)} s`)
    }
    return true
  }
  const { from, seeds, processes, mutant } = values
  say(`seeds from ${from} on`)
  await runSeeds({ from: Number(from), count: Number(seeds), processes: Number(processes), mutant, config, onResult })
  const seconds = (Date.now() - began) / 1000
  say(`${totals.seeds} seeded schedules, ${totals.steps} steps, ${totals.passes} passes in ${seconds.toFixed(1)} s`)
  say(
    `what went wrong on purpose: ${Object.entries(tally)
      .map(([what, count]) => `${what} ${count}`)
      .sort()
      .join(', ')}`,
  )
  say(totals.violations === 0 ? 'no violation of P1 to P5' : `${totals.violations} violations; see one with --seed`)
  return totals.violations === 0 ? 0 : 1
}

/** A mutant is put in where the product is loaded: by another process that loads it anew. */
function inMutated(mutant: string): number {
  const loader = fileURLToPath(new URL('./mutants/mutate.js', import.meta.url))
  const args = ['--import', loader, fileURLToPath(import.meta.url), ...process.argv.slice(2)]
  const env = { ...process.env, SIMULATION_MUTANT: mutant }
  return spawnSync(process.execPath, args, { env, stdio: 'inherit' }).status ?? 1
}

async function one(): Promise<number> {
  const { mutant, seed, plan: file } = values
  if (mutant !== undefined && process.env.SIMULATION_MUTANT !== mutant) return inMutated(mutant)
  const plan = file === undefined ? planOf(Number(seed), config) : (JSON.parse(readFileSync(file, 'utf8')) as Plan)
  const result = await new Simulation(plan).run()
  say(JSON.stringify(result, null, 2))
  const [violation] = result.violations
  if (!violation) return 0
  const small = await shrink(plan, violation)
  say(`shrunk in ${small.tries} tries to`)
  say(JSON.stringify(small.plan, null, 2))
  say(`${small.violation.promise} ${small.violation.kind} at ${Math.round(small.violation.at)} ms: ${small.violation.text}`)
  return 1
}
