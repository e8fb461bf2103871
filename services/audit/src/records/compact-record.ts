import { decode } from '@passover/bus'
import { auditRecord, isBody, openControl, openPolicy, requestNamed, schemaFor, schemaToCheck } from '@passover/core'
import {
  type ControlFrame,
  journalFilter,
  LIMITS,
  type PassKey,
  type PassRecord,
  type PassRow,
  type Priority,
  passRecord,
  type Step,
  SYSTEM,
} from '@passover/schemas'
import { z } from 'zod'
import { MAX_COMPACT_BYTES } from '../pass/control-frame.js'
import type { PassMemory } from '../pass/pass-memory.js'
import { rowOf } from './build-record.js'
import { bodyOf, outputOf } from './pass-history.js'

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

/** A pass that consists only of a request, a work step and a worker's output, taken from its messages or from its compact record. */
interface PlainPass {
  key: PassKey
  work: Step
  returned: Step
  /** Sequence and time of the request. */
  asked: { sequence: number; time: number }
  frame: ControlFrame
  /** Decoded body of the return. */
  body: Record<string, unknown>
}

/** A compact record does not store the guards and times by which its steps counted: they count. */
const COUNTED = { id_window_ms: Number.POSITIVE_INFINITY }

/** Returns the compact record and the row of a plain pass; `undefined` if the pass needs a full record. */
export function compactRecordOf(memory: PassMemory): { stored: CompactRecord; row: PassRow } | undefined {
  const pass = plainPass(memory)
  const [framed, returned] = memory.noted
  const frame = framed?.framed?.bytes
  if (!pass || !frame || !returned || returned.content_type !== undefined || frame.length + returned.body.length > MAX_COMPACT_BYTES)
    return undefined
  const { work, asked } = pass
  if (work.requested_at !== asked.time || work.timeout_ms === undefined || work.reply !== undefined) return undefined
  const stored: CompactRecord = {
    v: 2,
    key: pass.key,
    status: 'returned',
    priority: work.by as Priority,
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
  const row = compactRow(stored, pass)
  return row && { stored, row }
}

/** Returns the full record for a compact one; `undefined` if `compactRecordOf` cannot have produced it. */
export function expandCompactRecord(stored: CompactRecord): PassRecord | undefined {
  const pass = plainOf(stored)
  return pass && plainRecord(pass)
}

/** Returns the messages of a plain pass; `undefined` if the pass has more or other messages. */
function plainPass({ journal, noted, key, request }: PassMemory): PlainPass | undefined {
  if (journal.state !== 'done' || !journal.work || journal.held || journal.return.by === SYSTEM || noted.length !== 2) return undefined
  const [first, second] = noted
  if (!first?.framed || !second || first.fact !== journal.work || second.fact !== journal.return) return undefined
  const named = requestNamed(journal.work)
  const body = named && bodyOf(second)
  if (!named || !body || 'error' in body) return undefined
  const asked = { sequence: named.sequence, time: named.time ?? request?.time ?? journal.work.time }
  return { key, work: journal.work, returned: journal.return, asked, frame: first.framed.frame, body }
}

/** Builds the record of a plain pass; `undefined` if it depends on more than its messages, or a person still has to decide about the output. */
function plainRecord({ key, work, returned, asked, frame, body }: PlainPass): PassRecord | undefined {
  const control = openControl(frame, work)
  const output = outputOf(body, key)
  if (!control || schemaFor(output, control) !== undefined) return undefined
  const history = {
    key,
    requests: [asked],
    steps: [work, returned],
    decisions: [],
    events: [],
    control,
    returned: { v: 1 as const, output },
  }
  const record = auditRecord(history, COUNTED)
  return record.status === 'returned' && !record.error && !record.awaits ? record : undefined
}

const shallowRecord = z.discriminatedUnion('v', [passRecord, brief])

/** Returns a record as stored and its row, at a third of the cost of the full record; `undefined` if the value is not a stored record. */
export function readRow(value: unknown): { stored: StoredRecord; row: PassRow } | undefined {
  const parsed = shallowRecord.safeParse(value)
  if (!parsed.success) return undefined
  const stored = parsed.data
  if (stored.v === 1) return { stored, row: rowOf(stored) }
  const pass = plainOf(stored)
  const row = pass && compactRow(stored, pass)
  return row && { stored, row }
}

/** Returns the row of a compact record; `undefined` if the pass needs a full record. */
function compactRow(stored: CompactRecord, pass: PlainPass): PassRow | undefined {
  if (isOrdinary(pass)) return rowOfCompactRecord(stored, pass.frame)
  const record = plainRecord(pass)
  return record && rowOf(record)
}

function plainOf(stored: CompactRecord): PlainPass | undefined {
  const { key, sequences, priority, digest, parent, requested_at, admitted_at, deadline, ended_at, frame, back } = stored
  const [asked = 0] = sequences.requests
  const decoded = decode(frame, 'msgpack')
  const body = bodyOf({ body: back, content_type: undefined })
  if (!decoded.ok || !isBody(decoded.value) || !body || 'error' in body || !sequences.work || !sequences.return) return undefined
  const subject = journalFilter(key)
  const work: Step = {
    type: 'step',
    kind: 'work',
    key,
    by: priority,
    sequence: sequences.work,
    time: admitted_at,
    guard: { sequence: 0, subject },
    attempt: 0,
    digest,
    request: asked,
    requested_at,
    timeout_ms: deadline - admitted_at,
    parent,
  }
  const guard = { sequence: sequences.work, subject }
  const returned: Step = {
    type: 'step',
    kind: 'return',
    key,
    by: key.subagent,
    sequence: sequences.return,
    time: ended_at,
    guard,
    attempt: 1,
  }
  return { key, work, returned, asked: { sequence: asked, time: requested_at }, frame: decoded.value as ControlFrame, body }
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

/** Returns the row of an ordinary pass, the same as `rowOf` for the full record. Fields missing in the frame default as in `openControl`. */
function rowOfCompactRecord(stored: CompactRecord, frame: ControlFrame): PassRow {
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
    entry: { status: 'completed' },
  })
}
