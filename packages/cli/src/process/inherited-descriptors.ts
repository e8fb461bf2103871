import type { StdioOptions } from 'node:child_process'
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'

type Stdio = 'ignore' | 'pipe' | number

/** O_CLOEXEC on Linux, the same on every architecture that Node supports. */
const CLOSES_ON_EXEC = 0o2_000_000
/** Highest inherited descriptor that is accepted. Node needs an entry for each one up to the highest. */
const MAX_DESCRIPTOR = 65_536

/**
 * Calls `start` with `stdio` entries that replace inherited descriptors by /dev/null. Node closes the descriptors that it opened itself, but
 * `ignore` leaves an inherited one open in the command, and a descriptor of a folder leads out of any sandbox.
 *
 * @throws Error if a descriptor is above MAX_DESCRIPTOR
 */
export function spawnWithoutInherited<T>(own: readonly Stdio[], start: (stdio: StdioOptions) => T): T {
  const inherited = inheritedDescriptors().filter((descriptor) => (own[descriptor] ?? 'ignore') === 'ignore')
  const highest = Math.max(0, ...inherited)
  if (highest > MAX_DESCRIPTOR)
    throw new Error(
      `descriptor ${highest} of the worker is open and would reach its commands; start the worker without it (at most ${MAX_DESCRIPTOR})`,
    )
  if (inherited.length === 0) return start([...own])
  const nothing = openSync('/dev/null', 'r+')
  try {
    const kept = new Set(inherited)
    const length = Math.max(own.length, highest + 1)
    return start(Array.from({ length }, (_, at): Stdio => (kept.has(at) ? nothing : (own[at] ?? 'ignore'))))
  } finally {
    closeSync(nothing)
  }
}

/** Returns the descriptors above the standard ones that child processes would inherit. Read each time, because a library may open one. */
function inheritedDescriptors(): number[] {
  if (process.platform !== 'linux') return []
  return readdirSync('/proc/self/fd')
    .map(Number)
    .filter((descriptor) => descriptor > 2 && !closesOnExec(descriptor))
}

function closesOnExec(descriptor: number): boolean {
  let told: string
  try {
    told = readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')
  } catch (error) {
    // The descriptor was closed in the meantime, as is the descriptor with which readdirSync read the folder.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return true
    throw error
  }
  const flags = /^flags:\s+([0-7]+)$/m.exec(told)?.[1]
  return flags !== undefined && (Number.parseInt(flags, 8) & CLOSES_ON_EXEC) !== 0
}
