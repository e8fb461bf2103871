import { readFile } from 'node:fs/promises'
import { until } from './until.js'

/** State letter of a process as /proc tells it: R, S, T (stopped), Z (ended, not yet seen)…; undefined: not there. */
export async function processState(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  return stat?.replace(/^.*\) /s, '')[0]
}

/** SIGSTOP takes effect a moment after kill() returns; this waits for it. */
export async function stopProcess(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP')
  if (process.platform === 'linux')
    await until(async () => (await processState(pid)) === 'T', { what: `process ${pid} stands still`, every_ms: 1 })
}

/** Resident memory of a process, bytes. */
export async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024
}
