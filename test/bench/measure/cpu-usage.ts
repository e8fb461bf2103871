import { readdirSync, readFileSync } from 'node:fs'
import { cpus } from 'node:os'

/** Clock ticks of /proc, ms. */
const TICK_MS = 10

/** How much of all processors' time was used, in percent: by whomever, and by this process and all that it started. */
export interface Usage {
  all: number
  own: number
  /** Of this process and those that it started, by process id. */
  each: Map<number, number>
}

/** From now on: gives the usage until it is asked. What ended meanwhile is not counted as own. */
export function cpuOf(): () => Usage {
  const since = performance.now()
  const [machine, processes] = [busyMs(), ownMs()]
  return () => {
    const available = (performance.now() - since) * cpus().length
    const percent = (ms: number) => Math.round((100 * ms) / available)
    const used = [...ownMs()].map(([pid, ms]) => [pid, ms - (processes.get(pid) ?? 0)] as const)
    const own = used.reduce((sum, [, ms]) => sum + ms, 0)
    const each = new Map(used.map(([pid, ms]) => [pid, percent(ms)]))
    return { all: percent(busyMs() - machine), own: percent(own), each }
  }
}

function busyMs(): number {
  return cpus().reduce((sum, { times: { user, nice, sys, irq } }) => sum + user + nice + sys + irq, 0)
}

/** Processor time of each process from this one down, ms. */
function ownMs(): Map<number, number> {
  const found = new Map<number, { parent: number; ms: number }>()
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    const stat = Number.isInteger(pid) ? statOf(pid) : undefined
    if (stat) found.set(pid, stat)
  }
  const isOwn = (pid: number): boolean => pid === process.pid || (found.has(pid) && isOwn(found.get(pid)?.parent ?? 0))
  return new Map([...found].filter(([pid]) => isOwn(pid)).map(([pid, { ms }]) => [pid, ms]))
}

function statOf(pid: number): { parent: number; ms: number } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return { parent: Number(fields[1]), ms: (Number(fields[11]) + Number(fields[12])) * TICK_MS }
  } catch {
    return undefined
  }
}
