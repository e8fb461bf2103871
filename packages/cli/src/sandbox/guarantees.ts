import type { Mechanism } from './mechanism.js'

/** Enforcement level: the system refuses or ends violations; it hinders or detects them; or the command is only informed. */
export type Level = 'enforced' | 'best_effort' | 'not_enforced'

/** Level and mechanism of one constraint on this machine. */
export interface Guarantee {
  constraint: 'read_only' | 'no_external_calls' | 'max_memory_mb' | 'max_compute_time_ms' | 'process_cleanup'
  level: Level
  mechanism: string
}

export interface GuaranteeFacts {
  mechanism: Mechanism
  /** Version of the cgroup in which a memory limit can be set. */
  cgroup: 1 | 2 | undefined
  platform: NodeJS.Platform
}

/**
 * Returns the guarantees for commands that run with a mechanism. Only bubblewrap counts as enforcement: with `unshare` alone, UNIX sockets, devices
 * and parent directories stay open to the command. Pure.
 */
export function sandboxGuarantees(facts: GuaranteeFacts): Guarantee[] {
  const cleanup = cleanupOf(facts)
  return [
    { constraint: 'read_only', ...readOnlyOf(facts.mechanism) },
    { constraint: 'no_external_calls', ...networkOf(facts.mechanism) },
    { constraint: 'max_memory_mb', ...memoryOf(facts) },
    { constraint: 'max_compute_time_ms', ...cleanup },
    { constraint: 'process_cleanup', ...cleanup },
  ]
}

/** Returns the constraints that are enforced whatever the command does. */
export function enforcedConstraints(guarantees: readonly Guarantee[]): Set<Guarantee['constraint']> {
  return new Set(guarantees.filter(({ level }) => level === 'enforced').map(({ constraint }) => constraint))
}

/** Describes the guarantees for people, one line for each constraint. */
export function describeSandbox({ mechanism, guarantees }: { mechanism: Mechanism; guarantees: readonly Guarantee[] }): string {
  const lines = guarantees.map(
    ({ constraint, level, mechanism }) => `  ${constraint.padEnd(19)}  ${levelText(level).padEnd(12)}  ${mechanism}`,
  )
  const why = mechanism.kind === 'bubblewrap' ? '' : ` (${mechanism.why})`
  return [`Sandbox for commands: ${mechanism.kind}${why}`, ...lines].join('\n')
}

export function levelText(level: Level): string {
  return level.replace('_', ' ')
}

type ConstraintLevel = Omit<Guarantee, 'constraint'>

function readOnlyOf(mechanism: Mechanism): ConstraintLevel {
  if (mechanism.kind === 'bubblewrap')
    return { level: 'enforced', mechanism: `bubblewrap ${mechanism.version}: read-only mounts, own PID namespace` }
  if (mechanism.kind === 'unshare')
    return { level: 'best_effort', mechanism: 'unshare: read-only mount of the directory, own PID namespace' }
  return { level: 'best_effort', mechanism: 'changed files are detected afterwards and end the pass with E013' }
}

function networkOf(mechanism: Mechanism): ConstraintLevel {
  if (mechanism.kind === 'none' || !mechanism.network)
    return { level: 'not_enforced', mechanism: 'not enforced: the command is only informed (PASSOVER_CONSTRAINTS)' }
  if (mechanism.kind === 'bubblewrap' && mechanism.filter)
    return { level: 'enforced', mechanism: 'own network namespace; seccomp refuses UNIX, vsock and other sockets' }
  return { level: 'best_effort', mechanism: 'own network namespace; UNIX sockets in the file system and vsock stay reachable' }
}

function memoryOf({ mechanism, cgroup, platform }: GuaranteeFacts): ConstraintLevel {
  if (cgroup !== undefined && mechanism.kind === 'bubblewrap')
    return { level: 'enforced', mechanism: `cgroup v${cgroup}: all processes, files in memory, page cache` }
  if (cgroup !== undefined)
    return { level: 'best_effort', mechanism: `cgroup v${cgroup}, which a command without a sandbox may be able to leave` }
  if (platform === 'linux')
    return { level: 'best_effort', mechanism: 'measured every 50 ms; files in memory outside of /dev/shm are not counted (no cgroup)' }
  return { level: 'not_enforced', mechanism: 'memory can be measured on Linux only' }
}

function cleanupOf({ mechanism, cgroup }: GuaranteeFacts): ConstraintLevel {
  if (mechanism.kind !== 'none') return { level: 'enforced', mechanism: 'PID namespace: every process ends, daemons included' }
  const left = 'a process that starts a session of its own'
  return cgroup === undefined
    ? { level: 'best_effort', mechanism: `process group; ${left} survives` }
    : { level: 'best_effort', mechanism: `process group and cgroup v${cgroup}; ${left} and leaves the cgroup survives` }
}
