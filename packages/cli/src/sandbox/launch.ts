import { bubblewrapLine } from './bubblewrap.js'
import type { Layout } from './layout.js'
import type { Mechanism, Restrictions } from './mechanism.js'
import type { Tools } from './tools.js'
import { unshareLine } from './unshare.js'

export interface LaunchOptions extends Restrictions {
  command: readonly string[]
  mechanism: Mechanism
  layout: Layout
  /** True if `setpriv` can end the command together with the worker. Bubblewrap does that itself. */
  tied: boolean
  /** True if the command waits for a line on descriptor 3, and does not start if none comes. */
  gated: boolean
  /** Path of a cgroup for the command. */
  cgroup?: string | undefined
  limited: boolean
  /** RLIMIT_DATA of each process in bytes, used if memory is only measured at intervals. */
  data_bytes?: number | undefined
  shm_bytes?: number | undefined
  /** Paths of the programs that confine the command. Missing ones are looked up in PATH. */
  tools?: Tools | undefined
}

const NAME = 'passover'
const as_root = process.getuid?.() === 0

/** Returns the command line that runs a command in its sandbox. Pure. */
export function launchCommand(launch: LaunchOptions): string[] {
  const before = [...prepared(launch), ...confined(launch)]
  return [...before.map((word) => launch.tools?.get(word) ?? word), ...launch.command]
}

/** True if a shell passes all variables on. It drops those whose names it cannot use itself (`spring.datasource.url`). */
export function passesShell(env: NodeJS.ProcessEnv): boolean {
  return Object.keys(env).every((name) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
}

/** Returns a shell command that does what must happen before the sandbox exists, then replaces itself with the rest. */
function prepared({ mechanism, gated, cgroup, data_bytes }: LaunchOptions): string[] {
  // SIGTERM goes to the whole group. bwrap must survive it, or the command has no time to stop cleanly.
  const deaf = mechanism.kind === 'bubblewrap' && mechanism.graceful
  const steps: string[] = []
  if (gated) steps.push('read -r _ <&3 || exit 125', 'exec 3<&-')
  if (cgroup !== undefined) steps.push(`echo $$ > "$1/cgroup.procs" || { echo "${NAME}: cannot enter the cgroup $1" >&2; exit 125; }`)
  if (data_bytes !== undefined) steps.push(`ulimit -d ${Math.ceil(data_bytes / 1024)} 2>/dev/null`)
  if (steps.length === 0) return deaf ? ['env', '--ignore-signal=TERM'] : []
  if (deaf) steps.push(`trap '' TERM`)
  return ['sh', '-c', [...steps, 'shift', 'exec "$@"'].join('\n'), NAME, cgroup ?? '']
}

function confined(launch: LaunchOptions): string[] {
  const { mechanism, layout, tied } = launch
  if (mechanism.kind === 'bubblewrap') return bubblewrapLine({ ...launch, mechanism, as_root })
  const dying = tied ? ['setpriv', '--pdeathsig', 'KILL', '--'] : []
  return mechanism.kind === 'unshare' ? [...dying, ...unshareLine(mechanism.mode, layout, launch)] : dying
}
