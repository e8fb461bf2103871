import type { PromiseVerdict } from '../check/verdict.js'
import type { VerifyCommandResult } from '../verification/verify-command.js'
import type { ChaosReport } from './report.js'

/** One sentence about each promise (docs/architecture/invariants.md#promises). */
export const PROMISE_TEXT = {
  P1: 'One dispatch: each pass is dispatched at most once, each attempt runs at most once, only the newest attempt returns, and a repeated request gets the stored result',
  P2: 'One return: each accepted pass gets exactly one return in time, the originator gets the stored return, and no accepted request is lost',
  P3: 'Verified chain: parents, depth and loops match the stream',
  P4: 'Complete evidence: the archive and the records match the stream, and only passes that are closed, archived and old are deleted from it',
  P5: 'Limited rights: no child runs longer than its parent, handlers stop in time, and no held pass is dispatched without approval',
} as const

const MAX_VIOLATIONS = 50
const MAX_FAULTS = 5

/** Formats the report as Markdown. */
export function reportText(report: ChaosReport): string {
  const { verdict, machine } = report
  const sections = [
    `# Chaos report: ${outcomeText(report)}`,
    `${report.started_at}, ${report.seconds} s in total, seed ${report.seed}, Passover ${report.passover}. Repeat with: \`${report.again}\``,
    `Slack for a busy machine: ${report.options.slack_ms} ms beyond the bound of P2 (1 s while servers and a timekeeper are up, else 5 s after).`,
    `${machine.cpus} processors, ${machine.memory_mib} MiB, ${machine.platform}, Node ${machine.node}, nats-server ${machine.nats_server} × ${report.options.nodes} (R${report.options.nodes}, sync always), network: ${machine.network}, slow links by ${machine.slow_links}, full disk by ${machine.full_disk}.`,
    '## Promises',
    table(
      ['promise', 'verdict', 'checked'],
      Object.entries(verdict.promises).map(([name, found]) => [
        `${name} ${PROMISE_TEXT[name as keyof typeof PROMISE_TEXT]}`,
        verdictText(found),
        countsText(found.counts),
      ]),
    ),
    ...violations(report),
    `\`passover verify\` over archive and stream: ${verifyText(report.verify)}.`,
    '## Passes',
    `${verdict.totals.messages} messages, ${verdict.totals.requests} requests, ${verdict.totals.passes} passes, ${verdict.totals.ended} ended, ${verdict.totals.fences} later attempts. By outcome: ${countsText(verdict.totals.by_code)}.`,
    '## Faults',
    table(
      ['fault', 'times', 'median recovery', 'longest', 'median time to next return', 'longest'],
      Object.entries(report.faults).map(([fault, times]) => [fault, String(times), ...recoveryOf(report, fault)]),
    ),
    'Recovery: from the end of the fault until every server is healthy and every replica is up to date; for a killed process, until its replacement is ready. Time to next return: from the end of the fault until the next return of a worker.',
    '## Skipped',
    report.left_out.length > 0 ? report.left_out.map((what) => `- ${what}`).join('\n') : 'Nothing.',
    ...(report.soak ? ['## Growth of memory and storage', ...report.soak.lines] : []),
    '## Faults as they ran',
    report.done
      .map(
        ({ began, what, skipped }) =>
          `- ${((began - Date.parse(report.started_at)) / 1_000).toFixed(1)} s: ${skipped ? 'skipped: ' : ''}${what}`,
      )
      .join('\n'),
  ]
  return `${sections.filter(Boolean).join('\n\n')}\n`
}

/** Returns the outcome of a run in a few words. */
export function outcomeText({ ok, voided }: Pick<ChaosReport, 'ok' | 'voided'>): string {
  if (voided.length > 0) return 'INCONCLUSIVE'
  return ok ? 'no violation' : 'NOT OK'
}

/** Returns the result of `passover verify` in one line. */
export function verifyText({ ok, segments, counts, faults, remarks }: VerifyCommandResult): string {
  const checked = `${segments} segments and the stream after them; ${countsText(counts)}; remarks ${remarks}`
  return `${ok ? 'no faults' : `NOT OK: ${faults.slice(0, MAX_FAULTS).join('; ')}`} (${checked})`
}

function violations({ verdict, failures, voided }: ChaosReport): string[] {
  const found = Object.entries(verdict.promises).flatMap(([name, { violations: all }]) => all.map((what) => `- ${name}: ${what}`))
  return [
    ...(voided.length > 0 ? ['### Why the run is inconclusive', voided.map((what) => `- ${what}`).join('\n')] : []),
    ...(found.length > 0 ? [`### ${found.length} violations`, found.slice(0, MAX_VIOLATIONS).join('\n')] : []),
    ...(failures.length > 0 ? ['### Failures of the test run itself', failures.map((what) => `- ${what}`).join('\n')] : []),
  ]
}

function recoveryOf({ recovery }: ChaosReport, fault: string): string[] {
  const found = recovery[fault]
  if (!found) return ['', '', '', '']
  return [found.median_ms, found.most_ms, found.work_median_ms, found.work_most_ms].map((ms) => `${ms} ms`)
}

export function verdictText({ holds, violations: { length } }: PromiseVerdict): string {
  return holds ? 'holds' : `BROKEN (${length})`
}

export function countsText(counts: Record<string, number>): string {
  return Object.entries(counts)
    .map(([what, count]) => `${what} ${count}`)
    .join(', ')
}

function table(head: string[], rows: string[][]): string {
  const line = (cells: string[]) => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}
