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
  world: NamespaceSandbox
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

/** Performs one run, from the start of the servers to the verdict. */
export async function runOnce(options: ChaosOptions, home: RunEnvironment): Promise<ChaosReport> {
  const started = new Date()
  const servers = Array.from({ length: options.nodes }, (_, n) => `n${n + 1}`)
  const schedule = scheduleOf(options, servers)
  const own = options.network === 'own' && home.world.network
  home.say('starting servers and processes')
  await using arena = await Topology.open({
    seed: options.seed,
    servers,
    binary: home.server.path,
    rate: options.rate,
    id_window_ms: options.id_window_ms,
    dir: options.dir,
    namespaces: own,
    mounts: own && home.world.mounts,
    shaping: home.world.shaping,
    isolated: options.isolated,
  })
  const under = await underFire(arena, { options, schedule, home })
  const { troublemaker, silent, soak } = under
  const { verdict, returned } = await judgedRun({ arena, ...under }, options, home.say)
  home.say('passover verify')
  const { length_ms, id_window_ms } = options
  const verify = await runVerifyCommand(home.command, {
    servers: arena.servers,
    dir: options.dir,
    id_window_ms,
    length_ms,
    credentials: arena.access.verifier,
  })
  const failures = [
    ...arena.crashes,
    ...troublemaker.failures,
    ...silent.map((name) => `${name} still waited after ${DRAIN_TIMEOUT_MS} ms`),
  ]
  const { dir, ...asked } = options
  return {
    ok: verdict.ok && verify.ok && failures.length === 0 && troublemaker.voided.length === 0,
    passover: home.passover,
    seed: options.seed,
    again: commandOf(options),
    started_at: started.toISOString(),
    seconds: Math.round((Date.now() - started.getTime()) / 1_000),
    options: asked,
    machine: machineOf(arena, home),
    left_out: leftOut(arena, options, home.world),
    faults: countFaults(troublemaker.done),
    recovery: recoveries(troublemaker.done, returned),
    verdict,
    verify,
    failures,
    voided: troublemaker.voided,
    ...(soak && { soak }),
    schedule,
    done: troublemaker.done,
  }
}

interface UnderFire {
  troublemaker: FaultInjector
  /** Returns the observed deletions, given a test for what the stream still holds. */
  removals: (isHere: (sequence: number) => boolean) => Removal[]
  /** Names of the originators that did not finish in time. */
  silent: string[]
  soak: SoakReport | undefined
}

/** Runs load and faults until time is up and every originator has the results of its requests. */
async function underFire(
  arena: Topology,
  { options, schedule, home }: { options: ChaosOptions; schedule: readonly PlannedFault[]; home: RunEnvironment },
): Promise<UnderFire> {
  using time = timeUp(options.length_ms, home.stop)
  const over = time.signal
  await arena.ask()
  const troublemaker = new FaultInjector(arena, over)
  const soak = options.soak ? new Soak(arena) : undefined
  await using retention = await RetentionWatch.open(arena.servers, arena.access)
  const answered = new AbortController()
  const looking = retention.watch(answered.signal)
  const watching = soak?.watch(over)
  const telling = reportProgress(arena, { troublemaker, options, over, home })
  await Promise.all([troublemaker.run(schedule), pause(options.length_ms, over)])
  await Promise.all([telling, watching])
  home.say('load is over: waiting for what was asked for')
  const silent = await arena.answered(DRAIN_TIMEOUT_MS)
  answered.abort()
  await looking
  await retention.untilDeleted(home.stop.aborted ? 0 : DELETION_TIMEOUT_MS)
  const damaged = troublemaker.spansOf(({ fault }) => fault === 'flip')
  return { troublemaker, removals: (isHere) => retention.removals(damaged, isHere), silent, soak: soak?.report() }
}

/** Runs the checker on everything that servers and processes have stored. */
async function judgedRun(
  { arena, troublemaker, removals }: { arena: Topology } & UnderFire,
  { slack_ms, id_window_ms }: ChaosOptions,
  say: (progress: string) => void,
): Promise<VerificationResult> {
  const killed = Object.fromEntries(arena.of('worker').map(({ name, deaths }) => [name, deaths]))
  return verifyRun({
    servers: arena.servers,
    access: arena.access,
    histories: arena.historyDir,
    options: {
      bound_ms: 1_000 + slack_ms,
      cascade_ms: 2_000 + slack_ms,
      seal_ms: 30_000 + slack_ms,
      troubles: troublemaker.troubles(),
      audit_away: troublemaker.spansOf(({ target }) => target === 'audit'),
      id_window_ms,
      durable: DURABLE,
    },
    workers: { frozen: troublemaker.frozen('worker'), killed },
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
  arena: Topology,
  how: { troublemaker: FaultInjector; options: ChaosOptions; over: AbortSignal; home: RunEnvironment },
): Promise<void> {
  const started = performance.now()
  while (!how.over.aborted) {
    const left = Math.max(0, Math.round((how.options.length_ms - (performance.now() - started)) / 1_000))
    const last = how.troublemaker.done.at(-1)
    const trouble = arena.crashes.length > 0 ? `, ${arena.crashes.length} processes crashed` : ''
    how.home.say(`${how.troublemaker.done.length} faults, ${left} s left${trouble}${last ? `; last: ${last.what}` : ''}`)
    await pause(how.home.say_every_ms, how.over)
  }
}

function machineOf(arena: Topology, { world, server }: RunEnvironment): Machine {
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

/** Lists the faults and measurements that this machine does not support or that were not requested (I3). */
function leftOut(arena: Topology, { faults, nodes, network, soak }: ChaosOptions, world: NamespaceSandbox): string[] {
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
