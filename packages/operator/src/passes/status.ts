import type { PassRow } from '@passover/schemas'

/** What became of a pass in one word or two; list and detail both say exactly this. */
export function statusLabel(row: Pick<PassRow, 'status' | 'code' | 'output_status'>): string {
  if (row.code) return `${row.status} ${row.code}`
  return row.output_status && row.output_status !== 'completed' ? `${row.status} (${row.output_status})` : row.status
}

/** Whether it has not ended yet. */
export function isOpen(row: Pick<PassRow, 'status'>): boolean {
  return ['requested', 'held', 'waiting_for_return'].includes(row.status)
}
