/** What a pass must not do, as far as the system can see to it. */
export interface Wants {
  /** The directory is not to be changed. */
  read_only: boolean
  no_network: boolean
}

/** How namespaces are made here: as root at once, else in a user namespace of one's own. */
export type Mode = 'root' | 'user'

/** What holds a command, once it was tried. */
export interface Hold extends Wants {
  mode: Mode
}

export interface Launch {
  command: readonly string[]
  directory: string
  hold?: Hold | undefined
  /** `setpriv` is there: the command ends when its worker does. */
  tied: boolean
  /** A cgroup of its own that the command enters first. */
  cgroup?: string | undefined
  /** It waits for a line on its descriptor 3 before it begins, and does not begin where none comes. */
  gated: boolean
  /** Most bytes of private memory that a single process may ask for: a stop for what is faster than the watch. */
  data_bytes?: number | undefined
}

const NAME = 'passover'

/** Makes the directory and what is mounted in it read-only, for this mount namespace alone. $1: the directory. */
const READ_ONLY = `d=$1; shift
mount --rbind "$d" "$d" && mount -o remount,bind,ro "$d" || { echo "${NAME}: $d could not be made read-only" >&2; exit 125; }
while read -r _ _ _ _ m _; do case "$m" in "$d"/*) mount -o remount,bind,ro "$m" || exit 125 ;; esac; done < /proc/self/mountinfo
cd "$d" || exit 125
exec "$@"`
/** A network of its own, in which it can talk to itself where \`ip\` is there. */
const LOOPBACK = `ip link set lo up 2>/dev/null; exec "$@"`
const ENTER = `g=$1; shift; echo $$ > "$g/cgroup.procs" || { echo "${NAME}: no place in the cgroup $g" >&2; exit 125; }; exec "$@"`
const GATE = `read -r _ <&3 || exit 125; exec 3<&-; exec "$@"`
const LIMIT = `ulimit -d "$1" 2>/dev/null; shift; exec "$@"`

/** What would let root undo its hold: mounts, other processes' namespaces, devices. */
const KEYS_OF_ROOT = ['sys_admin', 'sys_ptrace', 'sys_module', 'sys_rawio', 'sys_boot', 'mknod', 'net_admin']

/** A shell hands on no variable whose name it could not use itself: a command with such is not made to wait in one. */
export function passesShell(env: NodeJS.ProcessEnv): boolean {
  return Object.keys(env).every((name) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
}

/** The command line that runs a command under its hold. Every step runs the next in its own place: no process more, and one process id. Pure. */
export function launchOf(launch: Launch): string[] {
  const { command, directory, hold, tied, gated, cgroup, data_bytes } = launch
  const line = [...command]
  line.unshift(...privilegesOf(hold, tied))
  if (hold?.read_only) line.unshift('sh', '-c', READ_ONLY, NAME, directory)
  if (hold?.no_network) line.unshift('sh', '-c', LOOPBACK, NAME)
  if (hold) line.unshift('unshare', ...namespacesOf(hold), '--')
  if (data_bytes !== undefined) line.unshift('sh', '-c', LIMIT, NAME, String(Math.ceil(data_bytes / 1024)))
  if (cgroup !== undefined) line.unshift('sh', '-c', ENTER, NAME, cgroup)
  if (gated) line.unshift('sh', '-c', GATE, NAME)
  return line
}

function namespacesOf({ mode, read_only, no_network }: Hold): string[] {
  return [
    ...(mode === 'user' ? ['--user', '--map-current-user', '--keep-caps'] : []),
    ...(read_only ? ['--mount', '--propagation', 'private'] : []),
    ...(no_network ? ['--net'] : []),
  ]
}

function privilegesOf(hold: Hold | undefined, tied: boolean): string[] {
  const dying = tied ? ['--pdeathsig', 'KILL'] : []
  if (!hold) return tied ? ['setpriv', ...dying, '--'] : []
  const dropped = hold.mode === 'user' ? '-all' : KEYS_OF_ROOT.map((key) => `-${key}`).join(',')
  const ambient = hold.mode === 'user' ? ['--ambient-caps=-all'] : []
  return ['setpriv', '--no-new-privs', ...ambient, `--inh-caps=${dropped}`, `--bounding-set=${dropped}`, ...dying, '--']
}
