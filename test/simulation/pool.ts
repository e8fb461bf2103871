import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Result } from './simulation.js'

const BATCH = 4

export interface PoolOptions {
  from: number
  count: number
  processes: number
  /** A fault put into the product, by its name in mutants.ts. */
  mutant?: string | undefined
  /** One of configs.ts; else whatever the seed says. */
  config?: string | undefined
  /** Called for each seed; false ends the run. */
  onResult: (result: Result) => boolean
}

/** Runs seeds on several processes, in order of their batches. */
export async function runSeeds({ from, count, processes, mutant, config = '', onResult }: PoolOptions): Promise<void> {
  let next = from
  let ended = false
  const take = () => {
    const batch: number[] = []
    while (batch.length < BATCH && next < from + count) batch.push(next++)
    return batch
  }
  const work = async () => {
    const child = start(mutant, config)
    try {
      for (let seeds = take(); seeds.length > 0 && !ended; seeds = take()) {
        for (const result of await ask(child, seeds)) if (!ended && !onResult(result)) ended = true
      }
    } finally {
      child.kill()
    }
  }
  await Promise.all(Array.from({ length: Math.min(processes, Math.ceil(count / BATCH)) }, work))
}

function start(mutant: string | undefined, config: string): ChildProcess {
  const built = (name: string) =>
    fileURLToPath(new URL(`../dist/simulation/${name}.js`, import.meta.url).href.replace('/dist/dist/', '/dist/'))
  const execArgv = mutant === undefined ? [] : ['--import', built('mutate')]
  return fork(built('batch'), [], {
    execArgv,
    env: { ...process.env, SIMULATION_MUTANT: mutant ?? '', SIMULATION_CONFIG: config },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
}

function ask(child: ChildProcess, seeds: number[]): Promise<Result[]> {
  return new Promise((resolve, reject) => {
    const died = (code: number | null) => reject(new Error(`a simulating process ended (${code})`))
    child.once('exit', died)
    child.once('message', (results) => {
      child.off('exit', died)
      resolve(results as Result[])
    })
    child.send(seeds)
  })
}
