import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Verdict } from './check/verdict.js'
import type { DoneFault } from './log.js'
import type { ChaosOptions } from './options.js'
import { reportText } from './report-text.js'
import type { PlannedFault } from './schedule.js'
import type { SoakReport } from './soak.js'

export interface Machine {
  cpus: number
  memory_mib: number
  platform: string
  node: string
  nats_server: string
  /** Where the servers' network is, and how a slow link and a full disk are made. */
  network: 'namespaces' | 'loopback'
  slow_links: string
  full_disk: string
}

/** Everything that a run has to say. */
export interface ChaosReport {
  ok: boolean
  passover: string
  seed: number
  /** The command that repeats it. */
  again: string
  started_at: string
  seconds: number
  options: Omit<ChaosOptions, 'dir'>
  machine: Machine
  left_out: string[]
  faults: Record<string, number>
  recovery: Record<string, Recovery>
  verdict: Verdict
  /** What went wrong with the run itself: processes that crashed, faults that failed, who never answered. */
  failures: string[]
  soak?: SoakReport
  schedule: readonly PlannedFault[]
  done: readonly DoneFault[]
}

/** From the end of the trouble to all being as before, ms. */
export interface Recovery {
  count: number
  median_ms: number
  most_ms: number
}

export function countFaults(done: readonly DoneFault[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { fault, skipped } of done) if (!skipped) counts[fault] = (counts[fault] ?? 0) + 1
  return counts
}

export function recoveries(done: readonly DoneFault[]): Record<string, Recovery> {
  const took = new Map<string, number[]>()
  for (const { fault, skipped, began, mended, recovered } of done) {
    if (skipped || fault === 'freeze') continue
    // A killed process is mended when its successor is ready: that whole time is its recovery.
    const ms = fault === 'kill' ? recovered - began : recovered - mended
    took.set(fault, [...(took.get(fault) ?? []), ms])
  }
  return Object.fromEntries(
    [...took].map(([fault, times]) => {
      const sorted = times.sort((a, b) => a - b)
      return [fault, { count: sorted.length, median_ms: sorted[sorted.length >> 1] ?? 0, most_ms: sorted.at(-1) ?? 0 }]
    }),
  )
}

/** Writes `report.md` and `report.json`; gives their paths. */
export async function writeReport(dir: string, report: ChaosReport): Promise<{ markdown: string; json: string }> {
  const paths = { markdown: join(dir, 'report.md'), json: join(dir, 'report.json') }
  await writeFile(paths.markdown, reportText(report))
  await writeFile(paths.json, `${JSON.stringify(report, undefined, 2)}\n`)
  return paths
}
