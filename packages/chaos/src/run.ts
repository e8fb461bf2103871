import { appendFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { Arena, PARTIES, PROCESSES } from './arena.js'
import { judged } from './judging.js'
import type { ChaosOptions } from './options.js'
import type { OwnWorld } from './own-world.js'
import { type ChaosReport, countFaults, type Machine, recoveries } from './report.js'
import { FAULTS, makeSchedule, type PlannedFault } from './schedule.js'
import { Soak } from './soak.js'
import { Troublemaker } from './troublemaker.js'
import { pause } from './wait.js'

const ANSWER_MS = 180_000
const SAY_EVERY_MS = 2_000

/** What a run is given besides its options. */
export interface RunHome {
  world: OwnWorld
  server: { path: string; version: string }
  passover: string
  say: (progress: string) => void
  /** Ends load and trouble; it is checked all the same. */
  stop: AbortSignal
}

/** One run, from the start of the servers to the verdict. */
export async function run(options: ChaosOptions, home: RunHome): Promise<ChaosReport> {
  const started = new Date()
  const begun = performance.now()
  const servers = Array.from({ length: options.nodes }, (_, n) => `n${n + 1}`)
  const schedule = scheduleOf(options, servers)
  const own = options.network === 'own' && home.world.network
  home.say('starting servers and processes')
  await using arena = await Arena.open({
    seed: options.seed,
    servers,
    binary: home.server.path,
    rate: options.rate,
    dir: options.dir,
    namespaces: own,
    mounts: own && home.world.mounts,
    shaping: home.world.shaping,
  })
  using time = timeUp(options.length_ms, home.stop)
  const over = time.signal
  await arena.ask()
  const troublemaker = new Troublemaker(arena, over)
  const soak = options.soak ? new Soak(arena) : undefined
  const watching = soak?.watch(over)
  const telling = tell(arena, { troublemaker, options, over, say: home.say })
  await Promise.all([troublemaker.run(schedule), pause(options.length_ms, over)])
  await Promise.all([telling, watching])
  home.say('load is over: waiting for what was asked for')
  const silent = await arena.answered(ANSWER_MS)
  const judging = { bound_ms: 1_000 + options.slack_ms, cascade_ms: 2_000 + options.slack_ms, troubles: troublemaker.troubles() }
  const { verdict, returned } = await judged({ servers: arena.servers, histories: arena.historyDir, options: judging, say: home.say })
  const failures = [...arena.crashes, ...troublemaker.failures, ...silent.map((name) => `${name} still waited after ${ANSWER_MS} ms`)]
  const { dir, ...asked } = options
  return {
    ok: verdict.ok && failures.length === 0,
    passover: home.passover,
    seed: options.seed,
    again: commandOf(options),
    started_at: started.toISOString(),
    seconds: Math.round((performance.now() - begun) / 1_000),
    options: asked,
    machine: machineOf(arena, home),
    left_out: leftOut(arena, options, home.world),
    faults: countFaults(troublemaker.done),
    recovery: recoveries(troublemaker.done, returned),
    verdict,
    failures,
    ...(soak && { soak: soak.report() }),
    schedule,
    done: troublemaker.done,
  }
}

/** Aborted when it is over. (Of what `AbortSignal.any` and `timeout` make, Node 20 may collect what still waits.) */
function timeUp(length_ms: number, stop: AbortSignal): { signal: AbortSignal } & Disposable {
  const over = new AbortController()
  const end = () => over.abort()
  const timer = setTimeout(end, length_ms)
  stop.addEventListener('abort', end)
  if (stop.aborted) end()
  return {
    signal: over.signal,
    [Symbol.dispose]() {
      clearTimeout(timer)
      stop.removeEventListener('abort', end)
    },
  }
}

export function scheduleOf({ seed, length_ms, faults }: ChaosOptions, servers: readonly string[]): PlannedFault[] {
  return makeSchedule({ seed, length_ms, faults, servers, processes: PROCESSES, parties: PARTIES })
}

/** Says how it goes, until it is over. */
async function tell(
  arena: Arena,
  how: { troublemaker: Troublemaker; options: ChaosOptions; over: AbortSignal; say: (progress: string) => void },
): Promise<void> {
  const started = performance.now()
  while (!how.over.aborted) {
    const left = Math.max(0, Math.round((how.options.length_ms - (performance.now() - started)) / 1_000))
    const last = how.troublemaker.done.at(-1)
    const trouble = arena.crashes.length > 0 ? `, ${arena.crashes.length} processes crashed` : ''
    how.say(`${how.troublemaker.done.length} faults, ${left} s left${trouble}${last ? `; last: ${last.what}` : ''}`)
    await pause(SAY_EVERY_MS, how.over)
  }
}

function machineOf(arena: Arena, { world, server }: RunHome): Machine {
  return {
    cpus: cpus().length,
    memory_mib: Math.round(totalmem() / (1 << 20)),
    platform: `${process.platform} ${process.arch}`,
    node: process.version,
    nats_server: server.version,
    network: arena.network.kind,
    slow_links: arena.network.kind === 'loopback' ? 'a proxy of our own' : world.shaping,
    full_disk: arena.disks.means,
  }
}

/** What this machine cannot do, or was not asked to (I3). */
function leftOut(arena: Arena, { faults, nodes, network, soak }: ChaosOptions, world: OwnWorld): string[] {
  const left = FAULTS.filter((fault) => !faults.includes(fault)).map((fault) => `${fault}: not asked for`)
  if (nodes === 1) left.push('leader-kill, disk-full, flip: there is one server, nobody else has what it loses')
  if (arena.network.kind === 'loopback' && network === 'own')
    left.push(`network namespaces: ${world.why}; proxies on loopback stand in for them`)
  if (arena.network.kind === 'namespaces' && world.shaping === 'tbf')
    left.push('delay of slow links: the kernel has no netem; their throughput alone is limited')
  if (arena.network.kind === 'namespaces' && world.shaping === 'none') left.push('slow links: the kernel can shape no traffic')
  if (arena.disks.means === 'none') left.push('disk-full: nothing may be mounted here, and there is no prlimit')
  if (soak && process.platform !== 'linux')
    left.push('memory, descriptors and threads of processes: they are read from /proc, which is not here')
  return left
}

function commandOf({ seed, length_ms, faults, nodes, rate, network, slack_ms, soak }: ChaosOptions): string {
  const some = faults.length < FAULTS.length ? ` --faults ${faults.join(',')}` : ''
  const where = network === 'loopback' ? ' --network loopback' : ''
  return `passover chaos --minutes ${length_ms / 60_000} --seed ${seed} --nodes ${nodes} --rate ${rate}${some}${where}${slack_ms > 0 ? ` --slack ${slack_ms}ms` : ''}${soak ? ' --soak' : ''}`
}

/** Writes down what is asked while it runs, for who looks at a run that hangs. */
export async function note(dir: string, text: string): Promise<void> {
  await appendFile(join(dir, 'run.log'), `${new Date().toISOString()} ${text}\n`)
}
