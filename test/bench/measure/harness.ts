import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** Who reads everything, of both pipelines: as the audit's own main has it, which only watches. PASSOVER_BENCH_NICENESS=0 for none. */
export const READER_NICENESS = Number(process.env.PASSOVER_BENCH_NICENESS ?? 5)

/** One process of a pipeline under measure. It says `ready`, then answers commands. */
export interface Role extends AsyncDisposable {
  ask<T>(command: object): Promise<T>
  usage(): Promise<Usage>
}

/** Resident bytes, and CPU time used so far in µs. */
export interface Usage {
  rss: number
  cpu_us: number
}

export interface Measured {
  passes: number
  seconds: number
  /** Latencies in ms, sorted. */
  p50: number
  p95: number
  p99: number
}

export interface Load {
  passes: number
  inflight: number
}

/** Starts a role's script (built) in a process of its own and waits until it is ready. */
export async function startRole(script: URL, options: object): Promise<Role> {
  const child = fork(fileURLToPath(script), [JSON.stringify(options)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  await message(child, 'ready')
  return {
    async ask<T>(command: object) {
      child.send(command)
      return (await message(child, 'result')) as T
    },
    async usage() {
      child.send({ usage: true })
      return (await message(child, 'result')) as Usage
    },
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null) return
      const gone = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      await gone
    },
  }
}

function message(child: ChildProcess, kind: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number | null) => reject(new Error(`role ended with ${code}`))
    const onMessage = (got: unknown) => {
      if (typeof got !== 'object' || got === null || !(kind in got)) return
      child.off('exit', onExit)
      child.off('message', onMessage)
      resolve((got as Record<string, unknown>)[kind])
    }
    child.on('message', onMessage)
    child.once('exit', onExit)
  })
}

/** The other end: what a role's script calls. */
export async function serveRole<O>(start: (options: O) => Promise<(command: Record<string, unknown>) => Promise<unknown>>): Promise<void> {
  const answer = await start(JSON.parse(process.argv[2] ?? '{}') as O)
  process.on('message', (command: Record<string, unknown>) => {
    if (command.usage) {
      const { user, system } = process.cpuUsage()
      process.send?.({ result: { rss: process.memoryUsage.rss(), cpu_us: user + system } satisfies Usage })
      return
    }
    answer(command).then(
      (result) => process.send?.({ result: result ?? null }),
      (error) => {
        console.error(error)
        process.exit(1)
      },
    )
  })
  process.on('disconnect', () => process.exit(0))
  process.send?.({ ready: true })
}

/** Keeps `inflight` passes under way until `passes` are done; `one` does a pass. */
export async function drive(one: () => Promise<void>, load: Load): Promise<Measured> {
  const latencies: number[] = []
  let begun = 0
  const lane = async () => {
    while (begun < load.passes) {
      begun += 1
      const t0 = performance.now()
      await one()
      latencies.push(performance.now() - t0)
    }
  }
  const started = performance.now()
  await Promise.all(Array.from({ length: load.inflight }, lane))
  return measured(latencies, (performance.now() - started) / 1000)
}

/** Begins a pass each `1 / rate` s, whatever became of those before: who comes late waits for nobody. */
export async function pace(one: (n: number) => Promise<void>, { passes, rate }: { passes: number; rate: number }): Promise<Measured> {
  const latencies: number[] = []
  const all: Promise<void>[] = []
  const started = performance.now()
  const begin = async (n: number) => {
    await one(n)
    latencies.push(performance.now() - started - (n * 1_000) / rate)
  }
  while (all.length < passes) {
    const due = Math.min(passes, Math.floor(((performance.now() - started) / 1_000) * rate) + 1)
    while (all.length < due) all.push(begin(all.length))
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await Promise.all(all)
  return measured(latencies, (performance.now() - started) / 1000)
}

export function measured(latencies: number[], seconds: number): Measured {
  latencies.sort((a, b) => a - b)
  const at = (q: number) => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * q))] ?? 0
  return { passes: latencies.length, seconds, p50: at(0.5), p95: at(0.95), p99: at(0.99) }
}
