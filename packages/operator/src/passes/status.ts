import type { PassRow } from '@passover/schemas'

/** Returns the status of a pass in one or two words, as both list and detail show it. */
export function statusLabel(row: Pick<PassRow, 'status' | 'code' | 'output_status'>): string {
  if (row.code) return `${row.status} ${row.code}`
  return row.output_status && row.output_status !== 'completed' ? `${row.status} (${row.output_status})` : row.status
}

/** Statuses of passes that have not ended. Those before admission and dispatch come first. */
export const OPEN_STATUSES = ['requested', 'held', 'waiting_for_return'] as const

/** Returns true if the pass has not ended yet. */
export function isOpen(row: Pick<PassRow, 'status'>): boolean {
  return (OPEN_STATUSES as readonly string[]).includes(row.status)
}
