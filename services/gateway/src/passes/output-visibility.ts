import type { AnsweredPass, InboxItem, PassOverAuditEntry, QueriedPass } from '@passover/schemas'
import type { Caller } from '../auth/caller.js'

interface VisibilityFacts {
  originator: string
  status: string
  decisions: readonly { item: string; verdict: string; counts?: boolean | undefined }[]
}

/** Why an output is not shown to this caller now; undefined: it may be. An originator gets it when it is released, and a person before that. */
export function hiddenReason(
  { kind, name }: Pick<Caller, 'kind' | 'name'>,
  { originator, status, decisions }: VisibilityFacts,
): string | undefined {
  if (kind === 'person' || originator !== name) return undefined
  const denied = decisions.some(({ item, verdict, counts }) => item === 'return' && verdict === 'deny' && counts !== false)
  const released = status !== 'awaiting_release' && status !== 'expired' && !denied
  return released ? undefined : `the output is not released: it is ${denied ? 'denied' : status}`
}

/** What of an answered pass. */
export function hiddenReasonOfPass(caller: Pick<Caller, 'kind' | 'name'>, { key, status, decisions }: AnsweredPass): string | undefined {
  return hiddenReason(caller, { originator: key.originator, status, decisions })
}

/** An audit entry as this caller may see it: its summary is the output's own, as far as there is one. */
export function visibleEntry(
  caller: Pick<Caller, 'kind' | 'name'>,
  { row, entry, decisions = [] }: QueriedPass,
): PassOverAuditEntry | undefined {
  const why = hiddenReason(caller, { originator: row.originator, status: row.status, decisions })
  return entry && why !== undefined && entry.returned ? { ...entry, summary: why } : entry
}

/** A record of the projection, likewise. */
export function visibleRecord(caller: Pick<Caller, 'kind' | 'name'>, pass: AnsweredPass): AnsweredPass['record'] {
  const { record } = pass
  const why = hiddenReasonOfPass(caller, pass)
  const entry = record?.entry as PassOverAuditEntry | undefined
  return entry?.returned && why !== undefined ? { ...record, entry: { ...entry, summary: why } } : record
}

/** What waits for a person, without what came back where only that person may see it yet. */
export function visibleItem({ kind }: Pick<Caller, 'kind'>, item: InboxItem): InboxItem {
  if (kind === 'person' || item.item !== 'return') return item
  const { returned: _, ...rest } = item
  return rest
}
