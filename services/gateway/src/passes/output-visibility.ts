import type { AnsweredPass, InboxItem, PassOverAuditEntry, QueriedPass } from '@passover/schemas'
import type { Caller } from '../auth/caller.js'

interface VisibilityFacts {
  originator: string
  status: string
  decisions: readonly { item: string; verdict: string; counts?: boolean | undefined }[]
}

/** Returns why an output is hidden from this caller; `undefined` if it is visible. An originator sees it after its release, a person before that. */
export function hiddenReason(
  { kind, name }: Pick<Caller, 'kind' | 'name'>,
  { originator, status, decisions }: VisibilityFacts,
): string | undefined {
  if (kind === 'person' || originator !== name) return undefined
  const denied = decisions.some(({ item, verdict, counts }) => item === 'return' && verdict === 'deny' && counts !== false)
  const released = status !== 'awaiting_release' && status !== 'expired' && !denied
  return released ? undefined : `the output is not released: its status is ${denied ? 'denied' : status}`
}

/** Same as {@link hiddenReason}, for an answered pass. */
export function hiddenReasonOfPass(caller: Pick<Caller, 'kind' | 'name'>, { key, status, decisions }: AnsweredPass): string | undefined {
  return hiddenReason(caller, { originator: key.originator, status, decisions })
}

/** Returns an audit entry as this caller may see it. Its summary comes from the output, so it is hidden with the output. */
export function visibleEntry(
  caller: Pick<Caller, 'kind' | 'name'>,
  { row, entry, decisions = [] }: QueriedPass,
): PassOverAuditEntry | undefined {
  const why = hiddenReason(caller, { originator: row.originator, status: row.status, decisions })
  return entry && why !== undefined && entry.returned ? { ...entry, summary: why } : entry
}

/** Returns the record of a pass as this caller may see it, with the summary hidden as in {@link visibleEntry}. */
export function visibleRecord(caller: Pick<Caller, 'kind' | 'name'>, pass: AnsweredPass): AnsweredPass['record'] {
  const { record } = pass
  const why = hiddenReasonOfPass(caller, pass)
  const entry = record?.entry as PassOverAuditEntry | undefined
  return entry?.returned && why !== undefined ? { ...record, entry: { ...entry, summary: why } } : record
}

/** Returns an inbox item without the returned output, unless the caller is a person. */
export function visibleItem({ kind }: Pick<Caller, 'kind'>, item: InboxItem): InboxItem {
  if (kind === 'person' || item.item !== 'return') return item
  const { returned: _, ...rest } = item
  return rest
}
