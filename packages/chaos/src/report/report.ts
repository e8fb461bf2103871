import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Verdict } from '../check/verdict.js'
import type { DoneFault, PlannedFault } from '../faults/schedule.js'
import type { ChaosOptions } from '../options.js'
import type { VerifyCommandResult } from '../verification/verify-command.js'
import { reportText } from './report-text.js'
import type { SoakReport } from './soak-report.js'

export interface Machine {
  cpus: number
  memory_mib: number
  platform: string
  node: string
  nats_server: string
  /** Kind of the servers' network, and the methods by which links are slowed and disks are filled. */
  network: 'namespaces' | 'loopback'
  slow_links: string
  full_disk: string
}

/** The complete report of a run. */
export interface ChaosReport {
  ok: boolean
  passover: string
  seed: number
  /** Command that repeats the run. */
  again: string
  started_at: string
  seconds: number
  options: Omit<ChaosOptions, 'dir'>
  machine: Machine
  left_out: string[]
  faults: Record<string, number>
  recovery: Record<string, Recovery>
  verdict: Verdict
  /** Result of `passover verify`. */
  verify: VerifyCommandResult
  /** Failures of the run itself: processes that crashed, faults that failed, and originators that did not finish. */
  failures: string[]
  /**
   * Reasons why the run proves nothing, for or against a promise: the server lost messages that it had acknowledged (decision 86). Empty if the run
   * is valid.
   */
  voided: string[]
  soak?: SoakReport
  schedule: readonly PlannedFault[]
  done: readonly DoneFault[]
}

export interface Recovery {
  count: number
  /** From the end of the fault until everything has recovered. */
  median_ms: number
  most_ms: number
  /** From the end of the fault to the next return of a worker. */
  work_median_ms: number
  work_most_ms: number
}

export function countFaults(done: readonly DoneFault[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { fault, skipped } of done) if (!skipped) counts[fault] = (counts[fault] ?? 0) + 1
  return counts
}

/** Faults without a recovery time: nothing is away after them. */
const NO_RECOVERY: readonly string[] = ['freeze', 'seal']

/** Computes recovery times. `returned` are the times at which workers returned, in order. */
export function recoveries(done: readonly DoneFault[], returned: readonly number[]): Record<string, Recovery> {
  const hurt = done.filter(({ skipped, fault }) => !skipped && !NO_RECOVERY.includes(fault))
  const kinds = [...new Set(hurt.map(({ fault }) => fault))]
  return Object.fromEntries(
    kinds.map((kind) => {
      const some = hurt.filter(({ fault }) => fault === kind)
      // A killed process counts as restored when its successor is ready, so recovery is measured from the kill.
      const settled = some.map(({ began, mended, recovered }) => recovered - (kind === 'kill' ? began : mended))
      const work = some.flatMap(({ began, mended }) => {
        const from = kind === 'kill' ? began : mended
        const next = returned.find((time) => time >= from)
        return next === undefined ? [] : [next - from]
      })
      return [kind, { count: some.length, ...medianAndMost('', settled), ...medianAndMost('work_', work) } as Recovery]
    }),
  )
}

function medianAndMost(name: string, times: readonly number[]): Record<string, number> {
  const sorted = [...times].sort((a, b) => a - b)
  return { [`${name}median_ms`]: sorted[sorted.length >> 1] ?? 0, [`${name}most_ms`]: sorted.at(-1) ?? 0 }
}

/** Writes `report.md` and `report.json` and returns their paths. */
export async function writeReport(dir: string, report: ChaosReport): Promise<{ markdown: string; json: string }> {
  const paths = { markdown: join(dir, 'report.md'), json: join(dir, 'report.json') }
  await writeFile(paths.markdown, reportText(report))
  await writeFile(paths.json, `${JSON.stringify(report, undefined, 2)}\n`)
  return paths
}
