import { appendFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import type { Removal } from '../check/deletions.js'
import type { NamespaceSandbox } from '../cluster/namespace-sandbox.js'
import { DURABLE, PARTIES, PROCESSES, Topology } from '../cluster/topology.js'
import { FaultInjector } from '../faults/fault-injector.js'
import { makeSchedule, type PlannedFault } from '../faults/schedule.js'
import { CHAOS_DEFAULTS, type ChaosOptions, FAULTS } from '../options.js'
import { type ChaosReport, countFaults, type Machine, recoveries } from '../report/report.js'
import type { SoakReport } from '../report/soak-report.js'
import { RetentionWatch } from '../verification/retention-watch.js'
import { type VerificationResult, verifyRun } from '../verification/verification.js'
import { runVerifyCommand } from '../verification/verify-command.js'
import { pause } from '../wait-for.js'
import { Soak } from './soak.js'

const DRAIN_TIMEOUT_MS = 180_000
/** Milliseconds to wait for a deletion. If an audit is killed, another one takes over its deletions after 30 s. */
const DELETION_TIMEOUT_MS = 40_000

/** Environment of a run, besides its options. */
export interface RunEnvironment {
  sandbox: NamespaceSandbox
  server: { path: string; version: string }
  passover: string
  /** The `passover` command, used to verify the result of a run. */
  command: readonly string[]
  say: (progress: string) => void
  /** Interval in milliseconds between progress messages. */
  say_every_ms: number
  /** Ends load and faults. The result is checked nevertheless. */
  stop: AbortSignal
}

/** Options of the runner's process, as JSON. */
export interface RunnerOptions extends Omit<RunEnvironment, 'say' | 'stop'> {
  options: ChaosOptions
}

/** Performs one run, from the start of the servers to the verdict. */
export async function runOnce(options: ChaosOptions, environment: RunEnvironment): Promise<ChaosReport> {
  const started = new Date()
  const servers = Array.from({ length: options.nodes }, (_, n) => `n${n + 1}`)
  const schedule = scheduleOf(options, servers)
  const own = options.network === 'own' && environment.sandbox.network
  environment.say('starting servers and processes')
  await using topology = await Topology.open({
    seed: options.seed,
    servers,
    binary: environment.server.path,
    rate: options.rate,
    id_window_ms: options.id_window_ms,
    dir: options.dir,
    namespaces: own,
    mounts: own && environment.sandbox.mounts,
    shaping: environment.sandbox.shaping,
    isolated: options.isolated,
  })
  const under = await underFire(topology, { options, schedule, environment })
  const { injector, silent, soak } = under
  const { verdict, returned } = await judgedRun({ topology, ...under }, options, environment.say)
  environment.say('passover verify')
  const { length_ms, id_window_ms } = options
  const verify = await runVerifyCommand(environment.command, {
    servers: topology.servers,
    dir: options.dir,
    id_window_ms,
    length_ms,
    credentials: topology.access.verifier,
  })
  const failures = [...topology.crashes, ...injector.failures, ...silent.map((name) => `${name} still waited after ${DRAIN_TIMEOUT_MS} ms`)]
  const { dir, ...asked } = options
  return {
    ok: verdict.ok && verify.ok && failures.length === 0 && injector.voided.length === 0,
    passover: environment.passover,
    seed: options.seed,
    again: commandOf(options),
    started_at: started.toISOString(),
    seconds: Math.round((Date.now() - started.getTime()) / 1_000),
    options: asked,
    machine: machineOf(topology, environment),
    left_out: leftOut(topology, options, environment.sandbox),
    faults: countFaults(injector.done),
    recovery: recoveries(injector.done, returned),
    verdict,
    verify,
    failures,
    voided: injector.voided,
    ...(soak && { soak }),
    schedule,
    done: injector.done,
  }
}

interface UnderFire {
  injector: FaultInjector
  /** Returns the observed deletions, given a test for what the stream still holds. */
  removals: (isHere: (sequence: number) => boolean) => Removal[]
  /** Names of the originators that did not finish in time. */
  silent: string[]
  soak: SoakReport | undefined
}

/** Runs load and faults until time is up and every originator has the results of its requests. */
async function underFire(
  topology: Topology,
  { options, schedule, environment }: { options: ChaosOptions; schedule: readonly PlannedFault[]; environment: RunEnvironment },
): Promise<UnderFire> {
  using time = timeUp(options.length_ms, environment.stop)
  const over = time.signal
  await topology.ask()
  const injector = new FaultInjector(topology, over)
  const soak = options.soak ? new Soak(topology) : undefined
  await using retention = await RetentionWatch.open(topology.servers, topology.access)
  const answered = new AbortController()
  const looking = retention.watch(answered.signal)
  const watching = soak?.watch(over)
  const telling = reportProgress(topology, { injector, options, over, environment })
  await Promise.all([injector.run(schedule), pause(options.length_ms, over)])
  await Promise.all([telling, watching])
  environment.say('load is over: waiting for what was asked for')
  const silent = await topology.answered(DRAIN_TIMEOUT_MS)
  answered.abort()
  await looking
  await retention.untilDeleted(environment.stop.aborted ? 0 : DELETION_TIMEOUT_MS)
  const damaged = injector.spansOf(({ fault }) => fault === 'flip')
  return { injector, removals: (isHere) => retention.removals(damaged, isHere), silent, soak: soak?.report() }
}

/** Runs the checker on everything that servers and processes have stored. */
async function judgedRun(
  { topology, injector, removals }: { topology: Topology } & UnderFire,
  { slack_ms, id_window_ms }: ChaosOptions,
  say: (progress: string) => void,
): Promise<VerificationResult> {
  const killed = Object.fromEntries(topology.of('worker').map(({ name, deaths }) => [name, deaths]))
  return verifyRun({
    servers: topology.servers,
    access: topology.access,
    histories: topology.historyDir,
    options: {
      bound_ms: 1_000 + slack_ms,
      cascade_ms: 2_000 + slack_ms,
      seal_ms: 30_000 + slack_ms,
      troubles: injector.troubles(),
      audit_away: injector.spansOf(({ target }) => target === 'audit'),
      id_window_ms,
      durable: DURABLE,
    },
    workers: { frozen: injector.frozen('worker'), killed },
    removals,
    say,
  })
}

/**
 * Returns a signal that is aborted when time is up or the run is stopped. Not made by `AbortSignal.any` and `timeout`, because Node 20 may
 * garbage-collect such signals while they are in use.
 */
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

/** Reports progress until the run is over. */
async function reportProgress(
  topology: Topology,
  how: { injector: FaultInjector; options: ChaosOptions; over: AbortSignal; environment: RunEnvironment },
): Promise<void> {
  const started = performance.now()
  while (!how.over.aborted) {
    const left = Math.max(0, Math.round((how.options.length_ms - (performance.now() - started)) / 1_000))
    const last = how.injector.done.at(-1)
    const trouble = topology.crashes.length > 0 ? `, ${topology.crashes.length} processes crashed` : ''
    how.environment.say(`${how.injector.done.length} faults, ${left} s left${trouble}${last ? `; last: ${last.what}` : ''}`)
    await pause(how.environment.say_every_ms, how.over)
  }
}

function machineOf(topology: Topology, { sandbox, server }: RunEnvironment): Machine {
  return {
    cpus: cpus().length,
    memory_mib: Math.round(totalmem() / (1 << 20)),
    platform: `${process.platform} ${process.arch}`,
    node: process.version,
    nats_server: server.version,
    network: topology.network.kind,
    slow_links: topology.network.kind === 'loopback' ? 'a proxy of our own' : sandbox.shaping,
    full_disk: topology.disks.means,
  }
}

/** Lists the faults and measurements that this machine does not support or that were not requested (I3). */
function leftOut(topology: Topology, { faults, nodes, network, soak }: ChaosOptions, sandbox: NamespaceSandbox): string[] {
  const left = FAULTS.filter((fault) => !faults.includes(fault)).map((fault) => `${fault}: not asked for`)
  if (nodes === 1) left.push('leader-kill, disk-full, flip: there is one server, nobody else has what it loses')
  if (topology.network.kind === 'loopback' && network === 'own')
    left.push(`network namespaces: ${sandbox.why}; proxies on loopback stand in for them`)
  if (topology.network.kind === 'namespaces' && sandbox.shaping === 'tbf')
    left.push('delay of slow links: the kernel has no netem; their throughput alone is limited')
  if (topology.network.kind === 'namespaces' && sandbox.shaping === 'none') left.push('slow links: the kernel can shape no traffic')
  if (topology.disks.means === 'none') left.push('disk-full: nothing may be mounted here, and there is no prlimit')
  if (soak && process.platform !== 'linux')
    left.push('memory, descriptors and threads of processes: they are read from /proc, which is not here')
  return left
}

function commandOf({ seed, length_ms, faults, nodes, rate, network, id_window_ms, slack_ms, soak, isolated }: ChaosOptions): string {
  const some = faults.length < FAULTS.length ? ` --faults ${faults.join(',')}` : ''
  const window = id_window_ms === CHAOS_DEFAULTS.id_window_ms ? '' : ` --id-window ${id_window_ms}ms`
  const where = `${network === 'loopback' ? ' --network loopback' : ''}${isolated ? ' --isolated' : ''}`
  return `passover chaos --minutes ${length_ms / 60_000} --seed ${seed} --nodes ${nodes} --rate ${rate}${some}${where}${window}${slack_ms > 0 ? ` --slack ${slack_ms}ms` : ''}${soak ? ' --soak' : ''}`
}

/** Appends a line to the log of the run, so that a run that hangs can be analyzed. */
export async function appendRunLog(dir: string, text: string): Promise<void> {
  await appendFile(join(dir, 'run.log'), `${new Date().toISOString()} ${text}\n`)
}
