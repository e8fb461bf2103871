import type { PassStatus, QueryStatus } from '@passover/schemas'

/** Where a pass stands, for `--status`: written here, since the schemas are too much to load for a list of commands. */
export const PASS_STATUSES: readonly PassStatus[] = [
  'requested',
  'held',
  'waiting_for_return',
  'returned',
  'awaiting_release',
  'expired',
  'processed',
  'refused',
  'timed_out',
  'cancelled',
]

/** And how it ended. */
export const QUERY_STATUSES: readonly QueryStatus[] = [...PASS_STATUSES, 'completed', 'failed', 'aborted', 'partial']
