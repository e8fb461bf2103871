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
  /** What `passover verify` says of what was left. */
  verify: VerifyCommandResult
  /** What went wrong with the run itself: processes that crashed, faults that failed, who never answered. */
  failures: string[]
  /** Why the run says nothing, for or against a promise: the server lost what it had acknowledged (decision 86). Empty: it is valid. */
  voided: string[]
  soak?: SoakReport
  schedule: readonly PlannedFault[]
  done: readonly DoneFault[]
}

export interface Recovery {
  count: number
  /** From the end of the trouble to all being as before. */
  median_ms: number
  most_ms: number
  /** From the end of the trouble to the next return of a worker. */
  work_median_ms: number
  work_most_ms: number
}

export function countFaults(done: readonly DoneFault[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { fault, skipped } of done) if (!skipped) counts[fault] = (counts[fault] ?? 0) + 1
  return counts
}

/** Nothing is away afterwards, or nothing ever was. */
const NO_RECOVERY: readonly string[] = ['freeze', 'seal']

/** `returned`: when workers returned, in order. */
export function recoveries(done: readonly DoneFault[], returned: readonly number[]): Record<string, Recovery> {
  const hurt = done.filter(({ skipped, fault }) => !skipped && !NO_RECOVERY.includes(fault))
  const kinds = [...new Set(hurt.map(({ fault }) => fault))]
  return Object.fromEntries(
    kinds.map((kind) => {
      const some = hurt.filter(({ fault }) => fault === kind)
      // A killed process is mended when its successor is ready: that whole time is its recovery.
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

/** Writes `report.md` and `report.json`; gives their paths. */
export async function writeReport(dir: string, report: ChaosReport): Promise<{ markdown: string; json: string }> {
  const paths = { markdown: join(dir, 'report.md'), json: join(dir, 'report.json') }
  await writeFile(paths.markdown, reportText(report))
  await writeFile(paths.json, `${JSON.stringify(report, undefined, 2)}\n`)
  return paths
}
