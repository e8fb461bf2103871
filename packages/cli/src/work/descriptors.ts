import type { StdioOptions } from 'node:child_process'
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'

type Stdio = 'ignore' | 'pipe' | number

/** O_CLOEXEC, as Linux has it on every platform of Node. */
const CLOSES_ON_EXEC = 0o2_000_000
/** Node is given an entry for each descriptor up to the highest one, so there is a limit. */
const HIGHEST = 65_536

/**
 * Runs `start` with entries for `stdio` that keep every descriptor that this process inherited from the command: Node closes those that it
 * opened itself, and `ignore` leaves an inherited one open. A descriptor of a folder would lead out of any sandbox. They become /dev/null.
 *
 * @throws Error a descriptor is too high
 */
export function withoutInherited<T>(own: readonly Stdio[], start: (stdio: StdioOptions) => T): T {
  const inherited = inheritedDescriptors().filter((descriptor) => (own[descriptor] ?? 'ignore') === 'ignore')
  const highest = Math.max(0, ...inherited)
  if (highest > HIGHEST)
    throw new Error(
      `descriptor ${highest} of the worker is open and would reach its commands; start the worker without it (at most ${HIGHEST})`,
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

/** Descriptors of this process above the standard ones that a program it starts would inherit. Read each time: a library may open one. */
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
    // It was closed meanwhile, as the one is by which the folder was read.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return true
    throw error
  }
  const flags = /^flags:\s+([0-7]+)$/m.exec(told)?.[1]
  return flags !== undefined && (Number.parseInt(flags, 8) & CLOSES_ON_EXEC) !== 0
}
