import type { PassRow } from '@passover/schemas'

/** Returns the status of a pass in one or two words, as both list and detail show it. */
export function statusLabel(row: Pick<PassRow, 'status' | 'code' | 'output_status'>): string {
  if (row.code) return `${row.status} ${row.code}`
  return row.output_status && row.output_status !== 'completed' ? `${row.status} (${row.output_status})` : row.status
}

/** Returns true if the pass has not ended yet. */
export function isOpen(row: Pick<PassRow, 'status'>): boolean {
  return ['requested', 'held', 'waiting_for_return'].includes(row.status)
}
