import type { ErrorCode, EventKind, Fact, PassKey, Step, StepKind } from '@passover/schemas'
import { ERROR_CODES, HEADER, NOBODY, parseKey, SYSTEM, soundTraceparent } from '@passover/schemas'
import { firstHeaders } from '../wire/headers.js'
import { distrust } from '../wire/message-origin.js'
import type { Guard, StoredMessage } from '../wire/messages.js'

/** A parsed subject. `unknown`: not one of ours, or one with tokens that no correct publisher uses. */
export type ParsedSubject =
  | { kind: 'request'; subagent: string; originator: string }
  | { kind: 'step'; step: StepKind; key: PassKey; by: string }
  | { kind: 'decision'; key: PassKey; item: string; person: string }
  | { kind: 'event'; event: EventKind; key: PassKey; sender: string }
  | { kind: 'acknowledged'; originator: string }
  | { kind: 'policy'; person: string }
  | { kind: 'agent'; person: string }
  | { kind: 'custody'; person: string }
  | { kind: 'advisory'; consumer: string }
  | { kind: 'returned'; key: PassKey; by: string }
  | { kind: 'decided'; originator: string }
  | { kind: 'ask'; asker: string }
  | { kind: 'register'; agent: string }
  | { kind: 'unknown' }

/** Headers that carry the guard of a publish. */
export const GUARD_SEQUENCE = 'Nats-Expected-Last-Subject-Sequence'
export const GUARD_SUBJECT = 'Nats-Expected-Last-Subject-Sequence-Subject'

const MAX_DIGITS = 16
const ZERO = 0x30
const SAFE_TEXT_BYTES = 256

/** Parses a whole number from a header. Returns `undefined` for anything else, including negative and unsafe numbers. */
function whole(text: string | undefined): number | undefined {
  if (text === undefined || text.length === 0 || text.length > MAX_DIGITS) return undefined
  let value = 0
  for (let at = 0; at < text.length; at += 1) {
    const digit = text.charCodeAt(at) - ZERO
    if (digit < 0 || digit > 9) return undefined
    value = value * 10 + digit
  }
  return Number.isSafeInteger(value) ? value : undefined
}

function positive(text: string | undefined): number | undefined {
  const value = whole(text)
  return value === undefined || value === 0 ? undefined : value
}

function short(text: string | undefined): string | undefined {
  return text === undefined || text === '' || text.length > SAFE_TEXT_BYTES ? undefined : text
}

function code(text: string | undefined): ErrorCode | undefined {
  return text === undefined ? undefined : ERROR_CODES.find((known) => known === text)
}

/** Returns the guard under which a message was stored, its subject without prefix, or `undefined` if it had none. */
export function guardOf(headers: { get(name: string): string | undefined }, stored_under: string, prefix: string): Guard | undefined {
  const sequence = whole(headers.get(GUARD_SEQUENCE))
  return sequence === undefined ? undefined : guard(sequence, headers.get(GUARD_SUBJECT) ?? stored_under, prefix)
}

function guard(sequence: number, subject: string, prefix: string): Guard {
  return { sequence, subject: subject.startsWith(prefix) ? subject.slice(prefix.length) : subject }
}

/** Reads a step from its parsed subject and its headers. Missing or malformed headers are left out. */
function stepOf(parsed: Extract<ParsedSubject, { kind: 'step' }>, stored: StoredMessage, prefix: string): Step {
  const headers = firstHeaders(stored.headers)
  const parent = headers.get(HEADER.parent)
  const guarded = whole(headers.get(GUARD_SEQUENCE))
  return {
    type: 'step',
    kind: parsed.step,
    key: parsed.key,
    by: parsed.by,
    sequence: stored.sequence,
    time: stored.time,
    guard: guarded === undefined ? undefined : guard(guarded, headers.get(GUARD_SUBJECT) ?? stored.subject, prefix),
    attempt: whole(headers.get(HEADER.attempt)) ?? 0,
    nonce: short(headers.get(HEADER.nonce)),
    digest: short(headers.get(HEADER.digest)),
    request: positive(headers.get(HEADER.request)),
    requested_at: whole(headers.get(HEADER.requestedAt)),
    timeout_ms: positive(headers.get(HEADER.timeout)),
    expires_ms: positive(headers.get(HEADER.expires)),
    parent: parent === undefined ? undefined : parseKey(parent),
    proof: positive(headers.get(HEADER.proof)),
    code: code(headers.get(HEADER.code)),
    status: short(headers.get(HEADER.status)),
    reply: headers.get(HEADER.reply) === 'json' ? 'json' : undefined,
    session: short(headers.get(HEADER.session)),
    first: headers.get(HEADER.first) === '1' && isOfDispatcher(parsed) ? true : undefined,
    traceparent: soundTraceparent(headers.get(HEADER.traceparent)),
  }
}

/** Returns true if only a dispatcher may publish the step. Agents may publish fences and returns under their own names. */
function isOfDispatcher({ step, by }: Extract<ParsedSubject, { kind: 'step' }>): boolean {
  return step === 'held' || step === 'work' || by === SYSTEM
}

/** Extracts what a headers-only reader needs of a stored message (see Subjects.toFact). */
export function factOf(parsed: ParsedSubject, stored: StoredMessage, prefix: string): Fact {
  const untrusted = distrust(parsed.kind, stored)
  return untrusted === undefined ? trustedFact(parsed, stored, prefix) : untrustedFact(parsed, stored, untrusted)
}

/**
 * Describes an untrusted message without using its headers. Steps and requests stay visible: a guard may name the step's sequence, and a request must
 * be answered. For everything else only the pass is known.
 */
function untrustedFact(parsed: ParsedSubject, { subject, sequence, time }: StoredMessage, untrusted: string): Fact {
  if (parsed.kind === 'step')
    return { type: 'step', kind: parsed.step, key: parsed.key, by: parsed.by, sequence, time, attempt: 0, untrusted }
  if (parsed.kind === 'request') {
    const { originator, subagent } = parsed
    return { type: 'request', originator, subagent, sequence, time, untrusted }
  }
  const key = 'key' in parsed ? { key: parsed.key } : {}
  return { type: 'untrusted', of: parsed.kind, subject, ...key, sequence, time, untrusted }
}

function trustedFact(parsed: ParsedSubject, stored: StoredMessage, prefix: string): Fact {
  const { sequence, time, headers } = stored
  switch (parsed.kind) {
    case 'step':
      return stepOf(parsed, stored, prefix)
    case 'request':
      return {
        type: 'request',
        originator: parsed.originator,
        subagent: parsed.subagent,
        sequence,
        time,
        ...(parsed.originator === NOBODY
          ? { untrusted: 'its subject does not name an originator and a subagent' }
          : { id: short(headers.get(HEADER.id)), timeout_ms: positive(headers.get(HEADER.timeout)) }),
      }
    case 'decision': {
      const verdict = headers.get(HEADER.verdict)
      return {
        type: 'decision',
        key: parsed.key,
        item: parsed.item,
        person: parsed.person,
        sequence,
        time,
        verdict: verdict === 'approve' || verdict === 'deny' ? verdict : undefined,
        digest: short(headers.get(HEADER.digest)),
      }
    }
    case 'event':
      return { type: 'event', kind: parsed.event, key: parsed.key, sender: parsed.sender, sequence, time }
    case 'advisory':
      return { type: 'advisory', consumer: parsed.consumer, sequence, time }
    case 'acknowledged':
      return { type: 'acknowledged', originator: parsed.originator, sequence, time }
    default:
      return { type: 'other', sequence, time }
  }
}
