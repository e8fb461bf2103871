import { CAPABILITIES_OF_ROOT } from './bubblewrap.js'
import { isInside, type Layout } from './layout.js'
import type { Restrictions, Unshare } from './mechanism.js'

const NAME = 'passover'

/** Process 1 of a PID namespace: `exit` keeps the shell from replacing itself with the command, which would then ignore SIGTERM. */
const INIT = '"$@"; exit $?'

/** Makes paths, and mounts below them, read-only in this mount namespace. $1: working directory, $2: number of paths, then the paths. */
const READ_ONLY = `directory=$1; n=$2; shift 2
while [ "$n" -gt 0 ]; do
  mount --rbind "$1" "$1" && mount -o remount,bind,ro "$1" || { echo "${NAME}: $1 could not be made read-only" >&2; exit 125; }
  while read -r _ _ _ _ m _; do case "$m" in "$1"/*) mount -o remount,bind,ro "$m" || exit 125 ;; esac; done < /proc/self/mountinfo
  shift; n=$((n - 1))
done
cd "$directory" || exit 125
exec "$@"`

/** Enables the loopback interface for the command, if \`ip\` is installed. */
const LOOPBACK = `ip link set lo up 2>/dev/null; exec "$@"`

/** Returns the `unshare` command line up to the command. Every step except the PID namespace replaces itself with the next one. Pure. */
export function unshareLine(mode: Unshare['mode'], layout: Layout, { read_only, no_network }: Restrictions): string[] {
  // A read-only mount of a folder that contains the project would make the project read-only as well.
  const never = [...layout.own, ...layout.program].filter((path) => !isInside(layout.directory, path))
  const paths = read_only ? [...layout.project, ...never] : never
  return [
    'unshare',
    ...(mode === 'user' ? ['--user', '--map-current-user', '--keep-caps'] : []),
    ...['--pid', '--fork', '--kill-child', '--mount', '--propagation', 'private', '--mount-proc'],
    ...(no_network ? ['--net'] : []),
    '--',
    ...(no_network ? ['sh', '-c', LOOPBACK, NAME] : []),
    ...(paths.length > 0 ? ['sh', '-c', READ_ONLY, NAME, layout.directory, String(paths.length), ...paths] : []),
    ...(read_only || no_network || mode === 'user' ? dropCapabilities(mode) : []),
    ...['sh', '-c', INIT, NAME],
  ]
}

function dropCapabilities(mode: Unshare['mode']): string[] {
  const kept = mode === 'root' ? CAPABILITIES_OF_ROOT.map((name) => `,+${name}`).join('') : ''
  return ['setpriv', '--no-new-privs', '--ambient-caps=-all', `--inh-caps=-all${kept}`, `--bounding-set=-all${kept}`, '--']
}
