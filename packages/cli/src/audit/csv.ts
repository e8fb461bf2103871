import { visible } from '@passover/core/text'
import type { PassOverAuditEntry } from '@passover/schemas'

const COLUMNS = [
  'pass_over_id',
  'session_id',
  'timestamp',
  'originating_agent',
  'subagent',
  'user_id',
  'reason',
  'work_context_size_bytes',
  'expected_output_type',
  'started_at',
  'completed_at',
  'duration_ms',
  'status',
  'artifacts_count',
  'files_modified_count',
  'issues_found_count',
  'returned',
  'returned_at',
  'applied',
  'applied_by',
  'policy_applied',
  'policy_overrides',
  'summary',
] as const satisfies readonly (keyof PassOverAuditEntry)[]
const TIMES: ReadonlySet<string> = new Set(['timestamp', 'started_at', 'completed_at', 'returned_at'])

/** Beginnings that a spreadsheet would treat as a formula. */
const FORMULA = /^[=+\-@＝＋－＠\t\r\n]/
/** Characters that require quotes. Includes the semicolon: with a decimal comma, a spreadsheet uses it as the separator. */
const QUOTED = /[",;\t\r\n]/

export const CSV_HEAD = line([...COLUMNS])

/**
 * Returns one entry as a line of CSV (RFC 4180). Times are ISO 8601, UTC. Cells that a spreadsheet would run as a formula begin with an
 * apostrophe, and hidden characters are visible: a CSV file is for people, the JSON lines beside it have the exact text.
 */
export function csvLine(entry: PassOverAuditEntry): string {
  return line(COLUMNS.map((name) => cell(name, entry[name])))
}

function line(cells: string[]): string {
  return `${cells.map(quoted).join(',')}\r\n`
}

function cell(name: string, value: unknown): string {
  if (value === undefined || value === null) return ''
  if (typeof value === 'number') return TIMES.has(name) ? new Date(value).toISOString() : String(value)
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function quoted(text: string): string {
  const shown = visible(text, { lines: true })
  const safe = FORMULA.test(shown) ? `'${shown}` : shown
  return QUOTED.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
