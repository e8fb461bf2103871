import { keyText, type PassKey, parseKey, type Step } from '@passover/schemas'
import { deadlineOf } from '../journal/state-machine.js'
import type { PackedSession } from '../limits/session-counter.js'
import type { PackedWindow } from '../limits/sliding-window.js'
import type { LiveJournal, OpenPass, PendingRequest } from './open-pass.js'

/** Fields of a step in a snapshot; `undefined` is encoded as null. */
type PackedStep = (string | number | null)[]
interface PackedPass {
  key: string
  held: PackedStep | null
  work: PackedStep | null
  last: number
  valid: number
  attempt: number
  cancelled: boolean
}
interface PackedAsked {
  originator: string
  subagent: string
  sequence: number
  time: number
  claimed_id: string | null
  claimed_timeout_ms: number | null
  id: string | null
  timeout_ms: number | null
  cancelled: boolean
}

/** The timekeeper's fold as plain data (docs/architecture/dispatcher.md#snapshots). */
export interface OpenSnapshot {
  v: 2
  position: number
  passes: PackedPass[]
  asked: PackedAsked[]
  cancels: [string, number][]
  minutes: PackedWindow[]
  sessions: PackedSession[]
  /** Time of the last change of generation in the session counter. */
  turned: number | null
}

export function emptySnapshot(position: number): OpenSnapshot {
  return { v: 2, position, passes: [], asked: [], cancels: [], minutes: [], sessions: [], turned: null }
}

export function packPass({ text, journal, cancelled }: Pick<OpenPass, 'text' | 'journal' | 'cancelled'>): PackedPass {
  const work = journal.state === 'open' ? packStep(journal.work) : null
  const attempt = journal.state === 'open' ? journal.attempt : 0
  return {
    key: text,
    held: journal.held ? packStep(journal.held) : null,
    work,
    last: journal.last,
    valid: journal.valid,
    attempt,
    cancelled,
  }
}

export function unpackPass(packed: PackedPass): OpenPass {
  const key = keyOf(packed.key)
  const { last, valid, attempt, cancelled } = packed
  const held = packed.held ? unpackStep(packed.held, key, 'held') : undefined
  const work = packed.work ? unpackStep(packed.work, key, 'work') : undefined
  if (work) {
    const journal: LiveJournal = { state: 'open', last, valid, attempt, work, deadline: deadlineOf(work), ...(held ? { held } : {}) }
    return { kind: 'pass', text: packed.key, key, journal, cancelled }
  }
  if (!held) throw new TypeError('a packed pass has neither held nor work')
  return { kind: 'pass', text: packed.key, key, journal: { state: 'held', last, valid, held }, cancelled }
}

export function packAsked({
  fact,
  key,
  timeout_ms,
  cancelled,
}: Pick<PendingRequest, 'fact' | 'key' | 'timeout_ms' | 'cancelled'>): PackedAsked {
  const { originator, subagent, sequence, time } = fact
  const claimed = { claimed_id: fact.id ?? null, claimed_timeout_ms: fact.timeout_ms ?? null }
  return { originator, subagent, sequence, time, ...claimed, id: key?.id ?? null, timeout_ms: timeout_ms ?? null, cancelled }
}

export function unpackAsked(packed: PackedAsked): PendingRequest {
  const { originator, subagent, sequence, time, cancelled } = packed
  const claimed = { id: packed.claimed_id ?? undefined, timeout_ms: packed.claimed_timeout_ms ?? undefined }
  const fact = { type: 'request' as const, originator, subagent, sequence, time, ...claimed }
  const key = packed.id === null ? undefined : { originator, subagent, id: packed.id }
  return { kind: 'asked', fact, key, text: key && keyText(key), timeout_ms: packed.timeout_ms ?? undefined, cancelled }
}

function packStep(step: Step): PackedStep {
  const parent = step.parent ? keyText(step.parent) : null
  const numbers = [step.request, step.requested_at, step.timeout_ms, step.expires_ms, step.proof].map((x) => x ?? null)
  return [step.by, step.sequence, step.time, step.attempt, parent, ...numbers, step.reply ?? null]
}

function unpackStep(packed: PackedStep, key: PassKey, kind: 'held' | 'work'): Step {
  const [by, sequence, time, attempt, parent, request, requested_at, timeout_ms, expires_ms, proof, reply] = packed
  return {
    type: 'step',
    kind,
    key,
    by: String(by),
    sequence: Number(sequence),
    time: Number(time),
    attempt: Number(attempt),
    parent: parent ? keyOf(String(parent)) : undefined,
    request: number(request),
    requested_at: number(requested_at),
    timeout_ms: number(timeout_ms),
    expires_ms: number(expires_ms),
    proof: number(proof),
    reply: reply === 'json' ? 'json' : undefined,
  }
}

function keyOf(text: string): PassKey {
  const key = parseKey(text)
  if (!key) throw new TypeError(`${text} names no pass`)
  return key
}

function number(value: string | number | null | undefined): number | undefined {
  return typeof value === 'number' ? value : undefined
}
