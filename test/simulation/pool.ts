import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Result } from './simulation.js'

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

/** Returns a seed that nobody chose: those that were tried before find nothing new. */
export function freshSeed(): number {
  return Date.now()
}

/** Runs seeds on several processes, each the next one when it is free. */
export async function runSeeds({ from, count, processes, mutant, config = '', onResult }: PoolOptions): Promise<void> {
  let next = from
  let ended = false
  const work = async () => {
    const child = start(mutant, config)
    try {
      while (next < from + count && !ended) if (!onResult(await ask(child, next++))) ended = true
    } finally {
      child.kill()
    }
  }
  await Promise.all(Array.from({ length: Math.min(processes, count) }, work))
}

function start(mutant: string | undefined, config: string): ChildProcess {
  const built = (name: string) =>
    fileURLToPath(new URL(`../dist/simulation/${name}.js`, import.meta.url).href.replace('/dist/dist/', '/dist/'))
  const execArgv = mutant === undefined ? [] : ['--import', built('mutants/mutate')]
  return fork(built('batch'), [], {
    execArgv,
    env: { ...process.env, SIMULATION_MUTANT: mutant ?? '', SIMULATION_CONFIG: config },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
}

function ask(child: ChildProcess, seed: number): Promise<Result> {
  return new Promise((resolve, reject) => {
    const died = (code: number | null) => reject(new Error(`a simulating process ended (${code})`))
    child.once('exit', died)
    child.once('message', (result) => {
      child.off('exit', died)
      resolve(result as Result)
    })
    child.send(seed)
  })
}
