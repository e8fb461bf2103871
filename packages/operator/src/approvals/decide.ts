import { randomUUID } from 'node:crypto'
import { type Bus, CONTENT_TYPE, decode, encode, type PublishMessage } from '@passover/bus'
import { type DecisionBody, decisionBody, HEADER, type PassKey, WIRE_VERSION } from '@passover/schemas'
import { Failure } from '../errors.js'

/** A decision to store. */
export interface DecisionRequest {
  key: PassKey
  /** `dispatch`, `return`, `apply`, or a flow's gate. */
  item: string
  verdict: 'approve' | 'deny'
  /** Digest of the content that the person was shown. */
  digest: string
  reason?: string | undefined
  /** Traceparent of the pass, if it is traced. */
  traceparent?: string | undefined
  modifications?: Record<string, 'taken' | 'rejected'> | undefined
  /** True to approve even if the credentials of an agent in the chain were revoked. Without it, an approval of item `dispatch` does not count. */
  despite_revocation?: boolean | undefined
}

/** Result of {@link decide}. */
export type DecisionResult =
  | { kind: 'won'; sequence: number }
  /** Another person decided first. */
  | { kind: 'lost'; standing: StoredDecision }

const MAX_TRIES = 5

/** A stored decision on an item, valid or not. */
export interface StoredDecision {
  person: string
  verdict: string
  time: number
  sequence: number
  /** False if the server published it on behalf of a client. Then it has no effect. */
  trusted: boolean
  nonce?: string | undefined
  reason?: string | undefined
  modifications?: Record<string, 'taken' | 'rejected'> | undefined
}

/**
 * Stores a person's decision on one item. If two people decide at the same time, a guard lets only the first decision be stored, and the second person
 * gets the name and time of the first. A stored decision that is not valid according to `counts` (for example, not by an approver) does not block: the
 * next decision uses its sequence as guard. Throws Failure E013 if the server does not permit the decision, and E040 if nothing was stored.
 */
export async function decide(
  bus: Bus,
  request: DecisionRequest,
  counts: (standing: StoredDecision) => Promise<boolean>,
): Promise<DecisionResult> {
  const nonce = randomUUID()
  let after = 0
  let why = 'too many people are deciding at the same time'
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const outcome = await bus.publish(decisionMessage(bus, request, { nonce, after }))
    if (outcome.kind === 'stored') {
      bus.hintDecided(request.key.originator)
      return { kind: 'won', sequence: outcome.sequence }
    }
    if (outcome.kind === 'refused' && outcome.reason === 'permission') {
      throw new Failure('E013', `${bus.identity} may not decide: ${outcome.description}`, {
        hint: 'a person must do this with their own credentials',
      })
    }
    if (outcome.kind !== 'lost') why = outcome.description
    const standing = await lastDecision(bus, request.key, request.item)
    if (!standing) continue
    if (standing.trusted && standing.nonce === nonce) return { kind: 'won', sequence: standing.sequence }
    if (standing.trusted && (await counts(standing))) return { kind: 'lost', standing }
    after = standing.sequence
  }
  throw new Failure('E040', `the decision was not stored: ${why}`, { hint: 'try again' })
}

function decisionMessage(bus: Bus, request: DecisionRequest, { nonce, after }: { nonce: string; after: number }): PublishMessage {
  const { key, item } = request
  const body: DecisionBody = {
    v: WIRE_VERSION,
    verdict: request.verdict,
    digest: request.digest,
    ...(request.reason === undefined ? {} : { reason: request.reason }),
    ...(request.modifications ? { modifications: request.modifications } : {}),
    ...(request.despite_revocation ? { despite_revocation: true } : {}),
  }
  return {
    subject: bus.subjects.decision(key, item, bus.identity),
    headers: {
      [HEADER.id]: key.id,
      [HEADER.verdict]: request.verdict,
      [HEADER.digest]: request.digest,
      [HEADER.nonce]: nonce,
      [HEADER.contentType]: CONTENT_TYPE.msgpack,
      ...(request.traceparent === undefined ? {} : { [HEADER.traceparent]: request.traceparent }),
    },
    data: encode(body),
    guard: { subject: bus.subjects.decisions(key, item), sequence: after },
  }
}

/** Reads the last stored decision on an item. */
async function lastDecision(bus: Bus, key: PassKey, item: string): Promise<StoredDecision | undefined> {
  const stored = await bus.journal.newest(bus.subjects.decisions(key, item))
  const parsed = stored && bus.subjects.parse(stored.subject)
  if (stored && parsed?.kind === 'decision') {
    const isTrusted = bus.subjects.isTrusted(stored)
    const decoded = decode(stored.data, stored.headers.get(HEADER.contentType))
    const body = decisionBody.safeParse(decoded.ok ? decoded.value : undefined)
    return {
      person: parsed.person,
      verdict: body.success ? body.data.verdict : 'unreadable',
      time: stored.time,
      sequence: stored.sequence,
      trusted: isTrusted,
      nonce: stored.headers.get(HEADER.nonce),
      reason: body.success ? body.data.reason : undefined,
      modifications: body.success ? body.data.modifications : undefined,
    }
  }
  return undefined
}
