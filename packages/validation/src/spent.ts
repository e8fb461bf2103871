import { readFileSync } from 'node:fs'

const NS_PER_MS = 1_000_000

/**
 * Returns the processor time that a thread has used in ms, or `undefined` if the system does not report it. Elapsed time would make a valid output
 * look uncheckable on a busy machine.
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
