import { auditRecord, type CheckSchema, type JournalRules, type PassHistory, schemaFor } from '@passover/core'
import { keyText, type PassOverAuditEntry, type PassRecord, type PassRow } from '@passover/schemas'
import type { PassMemory } from '../pass/pass-memory.js'
import { buildPassHistory, isWhole } from './pass-history.js'

export interface BuiltRecord {
  record: PassRecord
  row: PassRow
  /** Output and schema that still have to be checked before the record is complete. */
  unchecked?: { schema: unknown; output: unknown }
}

/** Builds the record and the row of a pass from its messages alone. */
export function buildRecord(memory: PassMemory, rules: JournalRules): BuiltRecord {
  const history = buildPassHistory(memory)
  const record = auditRecord(history, rules)
  const unchecked = memory.schema_faults ? undefined : uncheckedOf(memory, history)
  return unchecked ? { record, row: rowOf(record), unchecked } : { record, row: rowOf(record) }
}

/** Returns the schema check that is still due. An output that travels in parts is not checked here: only the originator sees it whole. */
function uncheckedOf(memory: PassMemory, { control, returned }: PassHistory): BuiltRecord['unchecked'] {
  const schema = control && returned && 'output' in returned ? schemaFor(returned.output, control) : undefined
  const noted = schema && memory.step('return')
  return noted && isWhole(noted) && returned && 'output' in returned ? { schema, output: returned.output } : undefined
}

/** Builds the record and the row of a pass, after applying its output_schema if there is one. */
export async function buildCheckedRecord(memory: PassMemory, rules: JournalRules, check: CheckSchema | undefined): Promise<BuiltRecord> {
  const described = buildRecord(memory, rules)
  if (!described.unchecked || !check) return described
  const { schema, output } = described.unchecked
  memory.judge(await check(schema, output, memory.key.subagent))
  return buildRecord(memory, rules)
}

type CopiedField =
  | 'key'
  | 'status'
  | 'session_id'
  | 'reason'
  | 'priority'
  | 'deadline'
  | 'ended_at'
  | 'attempt'
  | 'parent'
  | 'chain_depth'
  | 'retry_of'
type TimeField = 'requested_at' | 'held_at' | 'admitted_at' | 'ended_at'
/** Fields of a record that `list` shows. */
type RowSource = Pick<PassRecord, CopiedField | TimeField | 'sequences' | 'error' | 'settlement' | 'undelivered_at'> & {
  entry?: (Pick<PassOverAuditEntry, 'status'> & Partial<Pick<PassOverAuditEntry, 'reason'>>) | undefined
}

/** Returns a record as one row of `list`. All rows have the same object shape because there are many; undefined fields are not sent. */
export function rowOf(record: RowSource): PassRow {
  const { key, sequences, entry, error, parent } = record
  return {
    originator: key.originator,
    subagent: key.subagent,
    id: key.id,
    status: record.status,
    session_id: record.session_id,
    reason: record.reason ?? entry?.reason,
    priority: record.priority,
    created_at: createdAt(record),
    deadline: record.deadline,
    ended_at: record.ended_at,
    attempt: record.attempt,
    code: error?.code,
    output_status: error ? undefined : entry?.status,
    parent: parent && keyText(parent),
    chain_depth: record.chain_depth,
    retry_of: record.retry_of,
    requeued_as: record.settlement?.requeued_as,
    dropped_by: record.settlement?.action === 'drop' ? record.settlement.by : undefined,
    return_sequence: sequences.return,
    undelivered_at: record.undelivered_at,
    last_sequence: sequences.last,
  }
}

/** Returns when the pass was requested. This time is part of the record's key, so it must be the same for every record of a pass. */
export function createdAt(record: Pick<PassRecord, TimeField>): number {
  return record.requested_at ?? record.held_at ?? record.admitted_at ?? record.ended_at ?? 0
}
