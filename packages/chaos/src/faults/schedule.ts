import { CLUSTER_FAULTS, type FaultName, PROCESS_FAULTS } from '../options.js'
import { type SeededRandom, seededRandom } from '../seeded-random.js'

export interface PlannedFault {
  /** Milliseconds after the start of the load. */
  at_ms: number
  fault: FaultName
  /** A process or server; `leader` for the current leader of the stream; two ends for a link (`n1 n2`). */
  target: string
  for_ms: number
  /** Seed for the remaining choices, such as which bytes to flip or how slow a link is. */
  salt: number
}

export interface ScheduleOptions {
  seed: number
  /** Duration of the load in milliseconds. */
  length_ms: number
  faults: readonly FaultName[]
  servers: readonly string[]
  /** Processes by kind. If there are several of a kind, one always stays undisturbed, so that promises that hold "while one is up" can be judged. */
  processes: Readonly<Record<string, readonly string[]>>
  /** Ends of links besides the servers: groups of processes that share a connection to the servers. */
  parties: readonly string[]
}

const PROCESS_PAUSE = { least: 1_500, most: 5_000 }
/** Up to more than the lease of 5 s, so that a frozen worker may resume after another attempt has begun. */
const FREEZE = { least: 300, most: 9_000 }
/** Milliseconds allowed for a killed process to be ready again. */
const RESTART_MS = 5_000
const CLUSTER_PAUSE = { least: 6_000, most: 12_000 }
/**
 * Minimum and maximum duration of each fault in milliseconds. A server that is down for longer than a request is retried (15 s) would only cause
 * E040.
 */
const LENGTHS: Record<FaultName, { least: number; most: number }> = {
  kill: { least: 0, most: 0 },
  freeze: FREEZE,
  'server-kill': { least: 500, most: 6_000 },
  'server-freeze': { least: 500, most: 6_000 },
  'server-restart': { least: 0, most: 1_000 },
  'leader-kill': { least: 500, most: 4_000 },
  outage: { least: 200, most: 1_500 },
  partition: { least: 1_000, most: 8_000 },
  slow: { least: 2_000, most: 8_000 },
  'disk-full': { least: 1_000, most: 4_000 },
  flip: { least: 0, most: 2_000 },
  seal: { least: 0, most: 0 },
}
/** The first one comes early, so that what it archives is old enough to leave the stream before a run of one minute ends. */
const FIRST_SEAL = { least: 3_000, most: 8_000 }
const SEAL_PAUSE = { least: 30_000, most: 60_000 }

/** Returns the whole schedule in order. The same options give the same schedule (I1). */
export function makeSchedule(options: ScheduleOptions): PlannedFault[] {
  const planned = [...processLane(options), ...clusterLane(options), ...streamLane(options)]
  return planned.sort((a, b) => a.at_ms - b.at_ms || (a.target < b.target ? -1 : 1))
}

function processLane({ seed, length_ms, faults, processes }: ScheduleOptions): PlannedFault[] {
  const possible = PROCESS_FAULTS.filter((fault) => faults.includes(fault))
  const kinds = Object.keys(processes)
  const chosen = seededRandom(seed * 2 + 1)
  const lane: PlannedFault[] = []
  if (possible.length === 0 || kinds.length === 0) return lane
  /** Time in the schedule until which each process is away. */
  const away = new Map<string, number>()
  for (let at = between(chosen, PROCESS_PAUSE); at < length_ms; at += between(chosen, PROCESS_PAUSE)) {
    const of = processes[chosen.pick(kinds)] ?? []
    const target = chosen.pick(of)
    const fault = chosen.pick(possible)
    const for_ms = between(chosen, LENGTHS[fault])
    const salt = chosen.between(0, 1_000_000)
    const others = of.filter((one) => one !== target)
    if ((away.get(target) ?? 0) > at) continue
    if (others.length === 0 ? fault === 'freeze' : others.every((one) => (away.get(one) ?? 0) > at)) continue
    away.set(target, at + (fault === 'freeze' ? for_ms + 1_000 : RESTART_MS))
    lane.push({ at_ms: at, fault, target, for_ms, salt })
  }
  return lane
}

/** Plans server faults one at a time, because nothing is promised with two of three servers away. Each fault occurs once before any occurs again. */
function clusterLane({ seed, length_ms, faults, servers, parties }: ScheduleOptions): PlannedFault[] {
  const possible = CLUSTER_FAULTS.filter((fault) => faults.includes(fault) && fits(fault, servers.length))
  const chosen = seededRandom(seed * 2 + 2)
  const lane: PlannedFault[] = []
  if (possible.length === 0) return lane
  let turn: FaultName[] = []
  let at = between(chosen, CLUSTER_PAUSE)
  while (at < length_ms) {
    if (turn.length === 0) turn = shuffled(possible, chosen)
    const fault = turn.shift() as FaultName
    const for_ms = between(chosen, LENGTHS[fault])
    lane.push({ at_ms: at, fault, target: targetOf(fault, { servers, parties, chosen }), for_ms, salt: chosen.between(0, 1_000_000) })
    at += for_ms + between(chosen, CLUSTER_PAUSE)
  }
  return lane
}

function streamLane({ seed, length_ms, faults }: ScheduleOptions): PlannedFault[] {
  if (!faults.includes('seal')) return []
  const chosen = seededRandom(seed * 2 + 3)
  const lane: PlannedFault[] = []
  for (let at = between(chosen, FIRST_SEAL); at < length_ms; at += between(chosen, SEAL_PAUSE))
    lane.push({ at_ms: at, fault: 'seal', target: 'stream', for_ms: 0, salt: 0 })
  return lane
}

/** Returns false for a fault that needs a second server with the data that the first one lost, if there is only one. */
function fits(fault: FaultName, servers: number): boolean {
  return servers > 1 || !['leader-kill', 'disk-full', 'flip'].includes(fault)
}

interface Ends {
  servers: readonly string[]
  parties: readonly string[]
  chosen: SeededRandom
}

function targetOf(fault: FaultName, { servers, parties, chosen }: Ends): string {
  if (fault === 'leader-kill') return 'leader'
  if (fault === 'outage') return 'all'
  const server = chosen.pick(servers)
  if (fault !== 'partition' && fault !== 'slow') return server
  const others = [...servers.filter((one) => one !== server), ...parties]
  // Separates a server from the other servers, from all other ends, or from one end only.
  const kind = chosen.between(0, 2)
  if (kind === 0 && servers.length > 1) return `${server} ${servers.filter((one) => one !== server).join('+')}`
  if (kind === 1) return `${server} ${others.join('+')}`
  return `${server} ${chosen.pick(others)}`
}

function shuffled<T>(from: readonly T[], chosen: SeededRandom): T[] {
  const left = [...from]
  const out: T[] = []
  while (left.length > 0) out.push(...left.splice(chosen.between(0, left.length - 1), 1))
  return out
}

function between(chosen: SeededRandom, { least, most }: { least: number; most: number }): number {
  return chosen.between(least, most)
}

/** A fault as it was carried out. Times are in milliseconds by this machine's clock. */
export interface DoneFault extends PlannedFault {
  began: number
  /** Time at which the fault itself was over. */
  mended: number
  /** Time at which everything had recovered: servers settled, or the process ready. */
  recovered: number
  what: string
  skipped?: true
}
