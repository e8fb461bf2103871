/**
 * Entry of the dispatcher. In: requests and decisions, from the durable consumers that all dispatchers share.
 * Out: each is admitted or applied (admission/), and acknowledged once that is stored.
 */

import { type AckDecision, type ConsumerState, type Consumption, DECISIONS, type Delivery, DISPATCHER } from '@passover/bus'
import { admitRequest } from '../admission/admit-request.js'
import type { Context } from '../admission/context.js'
import { decideHeld } from '../admission/held-passes.js'
import type { ReceivedRequest } from '../admission/prepare-admission.js'
import { type ParseResult, type Parties, parseRequest } from '../messages/parse-request.js'
import { rejectMalformed } from '../messages/reject.js'
import type { Timekeeper } from '../timekeeper/timekeeper.js'
import { FairScheduler } from './fair-scheduler.js'

const RETRY_MS = 1_000
/** Delay for a request that depends on an earlier request. The timekeeper and the answers to earlier requests are usually ready after this time. */
const EARLIER_REQUEST_RETRY_MS = 50
const DRAIN_MS = 10_000
const DECISION_CONCURRENCY = 64

export interface IntakeOptions {
  /** Admits requests that wait behind the backlogs of other pairs. `undefined` if this process runs no timekeeper. */
  timekeeper: Timekeeper | undefined
  onRestored: (what: string) => void
}

export interface RequestIntake extends Consumption {
  /** Admits requests that the durable consumer skipped according to this state of the consumer. */
  lookForSkipped(state: ConsumerState): void
}

/**
 * Admits, holds or refuses requests, and applies decisions, as their durable consumers deliver them. Any number of replicas share the consumers (I1,
 * I3).
 */
export async function startIntake(context: Context, { timekeeper, onRestored }: IntakeOptions): Promise<RequestIntake> {
  const { bus } = context.deps
  const handleOne = (delivery: Delivery) => handle(context, delivery)
  const scheduler = timekeeper && new FairScheduler(context, timekeeper, handleOne)
  const concurrency = scheduler ? () => scheduler.concurrency : context.options.concurrency
  const inTurn = (delivery: Delivery) => {
    const early = scheduler?.delivered(delivery.sequence)
    return early ? unlessAlreadyHandled(context, delivery, early) : handle(context, delivery)
  }
  const decisions = await bus.consume(DECISIONS, handleOne, { concurrency: DECISION_CONCURRENCY, onRestored })
  const requests = await bus.consume(DISPATCHER, inTurn, { concurrency, onRestored })
  const drain = async (ms?: number) => {
    await Promise.all([requests.drain(ms), decisions.drain(ms), scheduler?.drain(ms ?? DRAIN_MS)])
  }
  return {
    get trouble() {
      return requests.trouble ?? decisions.trouble
    },
    lookForSkipped: (state) => scheduler?.lookForSkipped(state),
    drain,
    closed: Promise.all([requests.closed, decisions.closed]).then(() => undefined),
    [Symbol.asyncDispose]: () => drain(),
  }
}

/** Acknowledges a request that was settled out of turn, since its journal has begun (I2). Handles it now if that attempt did not settle it. */
async function unlessAlreadyHandled(context: Context, delivery: Delivery, early: Promise<boolean>): Promise<AckDecision> {
  return (await early) ? { ok: true } : handle(context, delivery)
}

/** Handles one delivery. An exception is a bug: it is logged and the delivery is retried, so that no stored message stops the dispatcher. */
async function handle(context: Context, delivery: Delivery): Promise<AckDecision> {
  try {
    const ackDecision = await dispatch(context, delivery)
    if (!('ok' in ackDecision)) context.stats.retried++
    return ackDecision
  } catch (error) {
    context.deps.log.error({ err: error, subject: delivery.subject, sequence: delivery.sequence }, 'delivery failed')
    context.stats.retried++
    return { retry: true, delay_ms: RETRY_MS }
  }
}

async function dispatch(context: Context, delivery: Delivery): Promise<AckDecision> {
  const { subjects } = context.deps.bus
  const parsed = subjects.parse(delivery.subject)
  if (parsed.kind === 'request') return handleRequest(context, delivery, parsed)
  if (parsed.kind === 'decision') return decideHeld(context, parsed)
  context.deps.log.warn({ sequence: delivery.sequence, subject: delivery.subject }, 'decision ignored: its subject does not name a pass')
  return { ok: true }
}

function handleRequest(context: Context, delivery: Delivery, parties: Parties): Promise<AckDecision> {
  const parsed = parseRequest(delivery, parties)
  return parsed.ok
    ? admitRequest(context, { delivery, parties, parsed: parsed.value })
    : rejectRequest(context, { delivery, parties }, parsed)
}

type ParseFailure = Extract<ParseResult, { ok: false }>

async function rejectRequest(
  context: Context,
  { delivery, parties }: Omit<ReceivedRequest, 'parsed'>,
  bad: ParseFailure,
): Promise<AckDecision> {
  const { error, reply_type, id } = bad
  const answer = await rejectMalformed(context, {
    parties,
    sequence: delivery.sequence,
    time: delivery.time,
    data: delivery.data,
    error,
    reply_type,
    id,
  })
  if ('later' in answer) return { retry: true, delay_ms: EARLIER_REQUEST_RETRY_MS }
  if (!answer.ok) return { retry: true, delay_ms: RETRY_MS }
  context.stats.bad++
  context.deps.log.warn({ sequence: delivery.sequence, originator: parties.originator, reason: error.message }, 'request malformed')
  await context.deps.faults?.at('admission:before-ack')
  return { ok: true }
}
