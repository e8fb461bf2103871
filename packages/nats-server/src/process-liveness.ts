import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/** When a process began, in whatever form the system tells: numbers are used again. Undefined: there is no such process. */
export function processStarted(pid: number): string | undefined {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    // A zombie has ended; only its parent has not looked yet.
    return fields[0] === 'Z' ? undefined : fields[19]
  } catch {
    if (process.platform === 'linux') return undefined
  }
  // Who asks in another language or time zone must be told the same.
  const env = { ...process.env, LC_ALL: 'C', TZ: 'UTC' }
  try {
    const args = ['-o', 'lstart=', '-p', String(pid)]
    return execFileSync('ps', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], env }).trim() || undefined
  } catch {
    return aliveBySignal(pid) ? '' : undefined
  }
}

/** Whether the process that began then is still there. */
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
    // It is there, and somebody else's.
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}
