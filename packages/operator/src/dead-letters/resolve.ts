import { randomUUID } from 'node:crypto'
import { type Bus, CONTENT_TYPE, encode } from '@passover/bus'
import { oneLine } from '@passover/core'
import { type DeadLetter, type DeadLetterDetail, HEADER, type SettledBody, type Settlement, WIRE_VERSION } from '@passover/schemas'
import { ago, nameMarks } from '@passover/sdk/internal/format'
import { askNameVerification } from '../audit/name-verification.js'
import { Failure } from '../errors.js'
import { findDeadLetter } from './list.js'

/** Result of resolving a dead letter: the document for --json, the sentence for people, the exit code. */
export interface ResolutionResult {
  document: Record<string, unknown>
  sentence: string
  exit: number
}

type SettleResult = { kind: 'mine' } | { kind: 'before'; settlement: Settlement }

const MAX_TRIES = 50
const RETRY_DELAY_MS = 100

/**
 * Stores the resolution of a dead letter. If two people resolve it at the same time, a guard lets only the first resolution be stored, and the second
 * person gets the name and time of the first. An invalid resolution does not block: the next one uses its sequence as guard. Throws Failure E013 if the
 * resolution is not permitted, and E040 if nothing was stored.
 */
export async function settle(bus: Bus, letter: DeadLetter, what: Omit<SettledBody, 'v'>): Promise<SettleResult> {
  const key = keyOf(letter)
  const nonce = randomUUID()
  const body: SettledBody = { v: WIRE_VERSION, ...what }
  let now = letter
  let why = 'the audit service has not processed it yet'
  // The audit ignores messages that the server published on a client's behalf; the guard counts them.
  let passed = 0
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    if (now.settlement) return { kind: 'before', settlement: now.settlement }
    const outcome = await bus.publish({
      subject: bus.subjects.event(key, 'settled', bus.identity),
      headers: { [HEADER.id]: key.id, [HEADER.nonce]: nonce, [HEADER.contentType]: CONTENT_TYPE.msgpack },
      data: encode(body),
      guard: { subject: bus.subjects.eventsOf(key, 'settled'), sequence: Math.max(now.settled_sequence, passed) },
    })
    if (outcome.kind === 'stored') return { kind: 'mine' }
    if (outcome.kind === 'refused' && outcome.reason === 'permission') {
      throw new Failure('E013', `${bus.identity} may not settle dead letters: ${outcome.description}`, {
        hint: 'a person must do this with their own credentials',
      })
    }
    if (outcome.kind !== 'lost') why = outcome.description
    const last = await bus.journal.newest(bus.subjects.eventsOf(key, 'settled'))
    if (last && !bus.subjects.isTrusted(last)) passed = last.sequence
    else if (last?.headers.get(HEADER.nonce) === nonce) return { kind: 'mine' }
    await new Promise((resolve) => setTimeout(resolve, RETRY_DELAY_MS))
    now = (await findDeadLetter(bus, deadLetterRef(letter))).letter
  }
  throw new Failure('E040', `the decision about ${letter.id} was not stored: ${why}`, { hint: 'try again' })
}

export function keyOf({ originator, subagent, id }: DeadLetter) {
  return { originator, subagent, id }
}

export function deadLetterRef({ originator, subagent, id }: DeadLetter) {
  return { id, from: originator, to: subagent }
}

/** Reports that another person already resolved the dead letter. The same resolution counts as success. */
export function alreadySettled(
  letter: DeadLetter,
  settlement: Settlement,
  { action, now }: { action: 'requeue' | 'drop'; now: number },
): ResolutionResult {
  const { by, time, requeued_as, reason, unverified } = settlement
  const what = settlement.action === 'requeue' ? `requeued it as ${requeued_as}` : 'dropped it'
  return {
    document: { id: letter.id, [action === 'requeue' ? 'requeued' : 'dropped']: false, ...settlement },
    sentence: `${letter.id}: ${by}${nameMarks({ unverified })} ${what} ${ago(time, now)}${reason ? ` ("${oneLine(reason)}")` : ''}.`,
    exit: settlement.action === action ? 0 : 1,
  }
}

/** Throws if the dead letter cannot be resolved yet. */
export function refusePending({ letter }: DeadLetterDetail): void {
  if (letter.state !== 'pending') return
  throw new Failure('E040', `the server gave up delivering ${letter.id}, and no dispatcher has closed it yet`, {
    hint: 'to start a dispatcher: passover up; it ends the pass, which can then be requeued or dropped',
  })
}

/** Drops a dead letter: stores an event with the person, the time and the reason. Deletes nothing. */
export async function dropDeadLetter(bus: Bus, detail: DeadLetterDetail, reason: string | undefined): Promise<ResolutionResult> {
  refusePending(detail)
  const { letter } = detail
  const settled = await settle(bus, letter, { action: 'drop', ...(reason === undefined ? {} : { reason }) })
  if (settled.kind === 'before') return alreadySettled(letter, settled.settlement, { action: 'drop', now: bus.now() })
  const names = await askNameVerification(bus)
  return {
    document: { id: letter.id, dropped: true, by: bus.identity, ...names, ...(reason === undefined ? {} : { reason }) },
    sentence: `Dropped ${letter.id} as ${bus.identity}${nameMarks({ ...names })}; it stays in the stream and in the audit trail.`,
    exit: 0,
  }
}
