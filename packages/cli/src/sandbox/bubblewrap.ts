import { ancestorsToPin, isInside, type Layout, type SecretFolder } from './layout.js'
import { type Bubblewrap, FILTER_FD, type Restrictions } from './mechanism.js'

export interface BubblewrapOptions extends Restrictions {
  layout: Layout
  mechanism: Pick<Bubblewrap, 'sized' | 'filter' | 'graceful'>
  as_root: boolean
  /** True if the command has a memory limit, so that it must not be able to leave its cgroup. */
  limited: boolean
  /** Size of a private /dev/shm in bytes. */
  shm_bytes?: number | undefined
}

/**
 * Capabilities of a restricted command that runs as root. It has none for mounting, entering namespaces, tracing, loading kernel code, creating
 * devices, or opening files by handle (CAP_DAC_READ_SEARCH: such a handle ignores read-only mounts).
 */
export const CAPABILITIES_OF_ROOT = ['chown', 'dac_override', 'fowner', 'fsetid', 'kill', 'setgid', 'setuid', 'net_bind_service'] as const

/** Returns the `bwrap` command line up to the command. Pure. */
export function bubblewrapLine(options: BubblewrapOptions): string[] {
  const { layout, mechanism, read_only, no_network, limited, as_root } = options
  const restricted = read_only || no_network
  const line = ['bwrap', '--unshare-pid', '--die-with-parent']
  if (restricted) line.push('--unshare-ipc')
  if (no_network) line.push('--unshare-net')
  if (as_root && (restricted || limited)) {
    line.push('--cap-drop', 'ALL', ...CAPABILITIES_OF_ROOT.flatMap((name) => ['--cap-add', `CAP_${name.toUpperCase()}`]))
  }
  line.push(...(restricted ? ['--ro-bind', '/', '/', '--dev', '/dev'] : ['--bind', '/', '/', '--dev-bind', '/dev', '/dev']))
  line.push(...sharedMemory(options, restricted), '--proc', '/proc')
  // /proc/sys/kernel/core_pattern names a program that the kernel runs outside, and its owner root needs no capability to write it.
  if (restricted || limited) line.push('--ro-bind-try', '/proc/sys', '/proc/sys')
  if (limited && !restricted) line.push('--ro-bind-try', '/sys', '/sys')
  line.push(...mountsOf(layout, { read_only, restricted }), ...layout.secrets.folders.flatMap(withoutSecrets))
  line.push(...layout.secrets.files.flatMap(emptied), '--chdir', layout.directory)
  if (no_network && mechanism.filter) line.push('--seccomp', String(FILTER_FD))
  line.push('--')
  // bwrap runs with SIGTERM ignored, see launch.ts.
  if (mechanism.graceful) line.push('env', '--default-signal=TERM')
  return line
}

function withoutSecrets({ folder, visible, emptied: empty }: SecretFolder): string[] {
  const bound = visible.flatMap((file) => ['--ro-bind', file, file])
  return ['--tmpfs', folder, ...bound, ...(empty === undefined ? [] : emptied(empty)), '--remount-ro', folder]
}

function emptied(file: string): string[] {
  return ['--ro-bind', '/dev/null', file]
}

/** Options for a private /dev/shm, which disappears with the command. Its size can be limited if no cgroup counts it. */
function sharedMemory({ shm_bytes, mechanism }: BubblewrapOptions, restricted: boolean): string[] {
  if (!restricted && shm_bytes === undefined) return []
  const size = shm_bytes !== undefined && mechanism.sized ? ['--size', String(shm_bytes)] : []
  return [...size, '--perms', '1777', '--tmpfs', '/dev/shm']
}

/** Returns mounts in order of depth, so that each is mounted on top of its parents. */
function mountsOf(layout: Layout, { read_only, restricted }: { read_only: boolean; restricted: boolean }): string[] {
  const { project, hidden_files, hidden_folders } = layout
  const never = [...layout.own, ...layout.program]
  const changeable = read_only ? [] : project.filter((path) => restricted || never.some((one) => isInside(path, one)))
  const writable = [...(restricted ? layout.writable : ['/']), ...changeable]
  const read_only_paths = read_only ? [...layout.search, ...project, ...never] : never
  const places = new Map<string, '--bind' | '--ro-bind'>()
  for (const path of writable) if (path !== '/') places.set(path, '--bind')
  for (const path of ancestorsToPin(read_only_paths, writable)) places.set(path, '--bind')
  for (const path of read_only_paths) places.set(path, '--ro-bind')
  const inOrder = [...places].sort(([one], [other]) => one.length - other.length)
  const mounts = inOrder.flatMap(([path, how]) => [how, path, path])
  if (!restricted) return mounts
  const hides = (path: string) => !project.some((one) => isInside(one, path))
  return [...mounts, ...hidden_folders.filter(hides).flatMap((path) => ['--tmpfs', path]), ...hidden_files.flatMap(emptied)]
}
