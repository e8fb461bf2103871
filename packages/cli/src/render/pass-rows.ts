import { isOpen, statusLabel } from '@passover/operator'
import type { PassRow } from '@passover/schemas'
import { ago, duration } from '../terminal/duration.js'
import type { Terminal } from '../terminal/terminal.js'
import { type Column, renderTable } from './table.js'

/** Returns the duration of a pass in milliseconds, up to now if it is open. */
export function elapsed(row: Pick<PassRow, 'created_at' | 'ended_at'>, now: number): number {
  return Math.max(0, (row.ended_at ?? now) - row.created_at)
}

export function statusColor(row: Pick<PassRow, 'status' | 'output_status'>, colors: Terminal['colors']): (text: string) => string {
  if (['refused', 'timed_out', 'cancelled', 'expired'].includes(row.status) || row.output_status === 'failed') return colors.red
  if (['held', 'awaiting_release'].includes(row.status)) return colors.yellow
  return isOpen(row) ? colors.cyan : colors.green
}

/** Renders the table of `list`. */
export function renderPassRows(rows: PassRow[], now: number, terminal: Pick<Terminal, 'colors' | 'columns'>): string {
  const columns: Column<PassRow>[] = [
    { head: 'ID', cell: (row) => row.id },
    { head: 'STATUS', cell: statusLabel, color: (row) => statusColor(row, terminal.colors) },
    { head: 'SEND', cell: (row) => row.send ?? '', optional: true },
    { head: 'FROM', cell: (row) => row.originator },
    { head: 'TO', cell: (row) => row.subagent },
    { head: 'REASON', cell: (row) => row.reason ?? '', shrinks: true, optional: true },
    { head: 'PRIORITY', cell: (row) => row.priority ?? '', optional: true },
    { head: 'ASKED', cell: (row) => ago(row.created_at, now) },
    { head: 'TOOK', cell: (row) => (isOpen(row) ? `${duration(elapsed(row, now))}…` : duration(elapsed(row, now))), optional: true },
  ]
  return renderTable(columns, rows, terminal)
}
