import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/**
 * Returns the start time of a process in a system-specific format, or `undefined` if it does not exist. Distinguishes processes with a reused pid.
 */
export function processStarted(pid: number): string | undefined {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    // A zombie has ended; its parent has not collected it yet.
    return fields[0] === 'Z' ? undefined : fields[19]
  } catch {
    if (process.platform === 'linux') return undefined
  }
  // The output must not depend on the caller's language or time zone.
  const env = { ...process.env, LC_ALL: 'C', TZ: 'UTC' }
  try {
    const args = ['-o', 'lstart=', '-p', String(pid)]
    return execFileSync('ps', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], env }).trim() || undefined
  } catch {
    return aliveBySignal(pid) ? '' : undefined
  }
}

/** Returns true if the process with that start time still runs. */
export function isAlive(pid: number | undefined, started: string | undefined): boolean {
  if (pid === undefined) return false
  const now = processStarted(pid)
  return now !== undefined && (started === undefined || now === started)
}

function aliveBySignal(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // It exists, but belongs to another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}
