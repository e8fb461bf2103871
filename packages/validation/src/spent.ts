import { readFileSync } from 'node:fs'

const NS_PER_MS = 1_000_000

/**
 * Processor time that a thread has used, ms; undefined where the system does not tell. A machine that is busy with other things must not make
 * a good output look like one that cannot be checked.
 */
export function spentBy(task: string | undefined): number | undefined {
  if (task === undefined) return undefined
  try {
    const ns = Number(readFileSync(`/proc/${task}/schedstat`, 'utf8').split(' ')[0])
    return Number.isFinite(ns) ? ns / NS_PER_MS : undefined
  } catch {
    return undefined
  }
}
