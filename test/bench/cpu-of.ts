import { cpus } from 'node:os'

/** From now on: gives how much of all processors' time was used until it is asked, in percent. */
export function cpuOf(): () => number {
  const before = used()
  return () => {
    const after = used()
    return Math.round((100 * (after.busy - before.busy)) / Math.max(1, after.all - before.all))
  }
}

function used(): { busy: number; all: number } {
  const times = cpus().map((one) => one.times)
  const all = times.reduce((sum, { user, nice, sys, idle, irq }) => sum + user + nice + sys + idle + irq, 0)
  return { busy: all - times.reduce((sum, { idle }) => sum + idle, 0), all }
}
