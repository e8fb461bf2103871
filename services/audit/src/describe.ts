import { auditRecord, type JournalRules } from '@passover/core'
import { keyText, type PassRecord, type PassRow } from '@passover/schemas'
import { toHistory } from './history.js'
import type { PassMemory } from './pass-memory.js'
import { plainRecord } from './plain.js'

export interface Described {
  record: PassRecord
  row: PassRow
}

/** Record and row of a pass as they follow from its messages alone. */
export function describe(memory: PassMemory, rules: JournalRules): Described {
  const record = plainRecord(memory) ?? auditRecord(toHistory(memory), rules)
  return { record, row: rowOf(record) }
}

/** A record as one line of `list`. One shape for all: there are many, and what is undefined is not sent. */
export function rowOf(record: PassRecord): PassRow {
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
    last_sequence: sequences.last,
  }
}

/** When it was asked for: stands in the record's key, so the same for every record of a pass. */
export function createdAt(record: PassRecord): number {
  return record.requested_at ?? record.held_at ?? record.admitted_at ?? record.ended_at ?? 0
}
