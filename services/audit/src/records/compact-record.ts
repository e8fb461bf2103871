import { decode } from '@passover/bus'
import { isBody, openPolicy, schemaToCheck } from '@passover/core'
import { type ControlFrame, LIMITS, type PassOverAuditEntry, type PassRecord, type PassRow, passRecord, type Slot } from '@passover/schemas'
import { z } from 'zod'
import { MAX_COMPACT_BYTES } from '../pass/control-frame.js'
import type { PassMemory } from '../pass/pass-memory.js'
import { rowOf } from './build-record.js'
import { type PlainPass, plainPass, plainRecord } from './fast-path-record.js'
import { bodyOf } from './pass-history.js'

const bytes = z.custom<Uint8Array>((value) => value instanceof Uint8Array)

/**
 * Compact form in which KV stores the record of a plain pass (decision 39): the fields that subjects and headers contain, and the encoded frame and
 * return body in place of the rest. It saves opening, completing and encoding a record for each pass, and takes a third of the bytes.
 */
const brief = passRecord.pick({ key: true, status: true, digest: true, parent: true, sequences: true }).extend({
  v: z.literal(2),
  priority: passRecord.shape.priority.unwrap(),
  requested_at: z.number(),
  admitted_at: z.number(),
  deadline: z.number(),
  ended_at: z.number(),
  /** Encoded control frame of the work step. */
  frame: bytes,
  /** Encoded body of the return. */
  back: bytes,
})
export type CompactRecord = z.infer<typeof brief>

/** A record as stored in KV, in full or compact form. */
export type StoredRecord = PassRecord | CompactRecord

/** Parses a stored record of either form into the full record. */
export const storedRecord: z.ZodType<PassRecord> = z.discriminatedUnion('v', [passRecord, brief]).transform((stored, context) => {
  const record = stored.v === 1 ? stored : expandCompactRecord(stored)
  if (record) return record
  context.addIssue({ code: 'custom', message: 'a brief that no plain pass has' })
  return z.NEVER
})

/** Returns the record encoded in these bytes; `undefined` if they are not a record. */
export function decodeRecord(data: Uint8Array): PassRecord | undefined {
  const decoded = decode(data)
  const record = decoded.ok ? storedRecord.safeParse(decoded.value) : undefined
  return record?.success ? record.data : undefined
}

const MAX_WORD = 64
const TIMES: ReadonlySet<string> = new Set(['created_at', 'started_at', 'completed_at'])

/** Returns the compact record and the row of a plain pass; `undefined` if the pass needs a full record. */
export function compactRecordOf(memory: PassMemory): { stored: CompactRecord; row: PassRow } | undefined {
  const pass = plainPass(memory)
  const [framed, returned] = memory.noted
  const frame = framed?.framed?.bytes
  if (!pass || !frame || !returned || returned.content_type !== undefined || frame.length + returned.body.length > MAX_COMPACT_BYTES)
    return undefined
  const { work, asked } = pass
  if (work.requested_at !== asked.time || work.timeout_ms === undefined || work.reply !== undefined) return undefined
  const status = isOrdinary(pass) ? 'completed' : plainRecord(pass)?.entry?.status
  if (!status) return undefined
  const stored: CompactRecord = {
    v: 2,
    key: pass.key,
    status: 'returned',
    priority: work.by as Slot,
    digest: work.digest,
    parent: work.parent,
    requested_at: asked.time,
    admitted_at: work.time,
    deadline: work.time + work.timeout_ms,
    ended_at: pass.returned.time,
    sequences: sequencesOf(pass),
    frame,
    back: returned.body,
  }
  return { stored, row: rowOfCompactRecord(stored, pass.frame, status) }
}

/** Returns the full record for a compact one; `undefined` if `compactRecordOf` cannot have produced it. */
export function expandCompactRecord(stored: CompactRecord): PassRecord | undefined {
  const pass = plainOf(stored)
  return pass && plainRecord(pass)
}

const shallowRecord = z.discriminatedUnion('v', [passRecord, brief])

/** Returns a record as stored and its row, at a third of the cost of the full record; `undefined` if the value is not a stored record. */
export function readRow(value: unknown): { stored: StoredRecord; row: PassRow } | undefined {
  const parsed = shallowRecord.safeParse(value)
  if (!parsed.success) return undefined
  const stored = parsed.data
  if (stored.v === 1) return { stored, row: rowOf(stored) }
  const pass = plainOf(stored)
  const status = pass && (isOrdinary(pass) ? 'completed' : plainRecord(pass)?.entry?.status)
  return pass && status ? { stored, row: rowOfCompactRecord(stored, pass.frame, status) } : undefined
}

function plainOf(stored: CompactRecord): PlainPass | undefined {
  const { key, sequences, admitted_at, frame } = stored
  const [asked = 0] = sequences.requests
  const decoded = decode(frame, 'msgpack')
  const body = bodyOf({ body: stored.back, content_type: undefined })
  if (!decoded.ok || !isBody(decoded.value) || !body || sequences.work === undefined || sequences.return === undefined) return undefined
  return {
    key,
    work: {
      key,
      by: stored.priority,
      digest: stored.digest,
      request: asked,
      requested_at: stored.requested_at,
      timeout_ms: stored.deadline - admitted_at,
      parent: stored.parent,
      proof: undefined,
      reply: undefined,
      sequence: sequences.work,
      time: admitted_at,
    },
    returned: { sequence: sequences.return, time: stored.ended_at, digest: undefined },
    asked: { sequence: asked, time: stored.requested_at },
    frame: decoded.value as ControlFrame,
    body,
  }
}

/**
 * True if an output is clearly acceptable, completed and not awaiting a decision, without opening it: it has only text and times, and the policy of
 * the pass has no output_schema. Most outputs are like this; `plainRecord` judges the others.
 */
function isOrdinary({ frame, body }: PlainPass): boolean {
  const { brief: said } = body
  const policy = openPolicy(frame.policy)
  if (
    !('v' in body) ||
    body.base !== undefined ||
    !policy ||
    schemaToCheck({ policy }) !== undefined ||
    !isBody(said) ||
    !isBody(said.metadata)
  )
    return false
  for (const name in said) if (name !== 'metadata' && (name !== 'output' || typeof said.output !== 'string')) return false
  for (const name in said.metadata) if (!TIMES.has(name) && name !== 'policy_name') return false
  const { created_at, started_at, completed_at, policy_name } = said.metadata
  const named = policy_name === undefined || (typeof policy_name === 'string' && policy_name.length <= MAX_WORD)
  return named && isTime(created_at) && isTime(started_at) && isTime(completed_at)
}

function isTime(value: unknown): boolean {
  return typeof value === 'number' && value >= 0 && value <= LIMITS.time
}

function sequencesOf({ asked, work, returned }: PlainPass): CompactRecord['sequences'] {
  const last = Math.max(asked.sequence, work.sequence, returned.sequence)
  return { requests: [asked.sequence], work: work.sequence, return: returned.sequence, fences: [], last }
}

/** Returns the same row as `rowOf` for the full record. Fields missing in the frame default as in `openControl`. */
function rowOfCompactRecord(stored: CompactRecord, frame: ControlFrame, output_status: PassOverAuditEntry['status']): PassRow {
  const { key, status, priority, parent, requested_at, deadline, ended_at, sequences } = stored
  return rowOf({
    key,
    status,
    session_id: frame.session_id ?? '',
    reason: frame.reason ?? '',
    priority: frame.priority ?? priority,
    requested_at: frame.requested_at ?? requested_at,
    deadline,
    ended_at,
    attempt: 1,
    parent: frame.parent ?? parent,
    chain_depth: frame.chain_depth ?? frame.ancestors?.length ?? 1,
    retry_of: frame.retry_of,
    sequences,
    entry: { status: output_status },
  })
}
