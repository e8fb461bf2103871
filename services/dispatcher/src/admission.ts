import type { Consumption, Delivery, Verdict } from '@passover/bus'
import { passError } from '@passover/core'
import { admitRequest } from './admit-request.js'
import type { Context } from './context.js'
import { decideHeld } from './decisions.js'
import type { Asked } from './prepare.js'
import { type Parties, type Reading, readRequest } from './read-request.js'
import { answerBad } from './refuse.js'

const RETRY_MS = 1_000
const NOBODY = 'nobody'

/** Admits, holds or refuses what the durable `dispatcher` delivers; any number of replicas share it (I1, I3). */
export function startAdmission(context: Context, onRestored: (what: string) => void): Promise<Consumption> {
  const { concurrency } = context.options
  return context.deps.bus.consume('dispatcher', (delivery) => handle(context, delivery), { concurrency, onRestored })
}

/** Nothing that was stored may stop it: a throw, a bug by definition, gives the delivery back and is logged. */
async function handle(context: Context, delivery: Delivery): Promise<Verdict> {
  try {
    const verdict = await dispatch(context, delivery)
    if (!('ok' in verdict)) context.stats.retried++
    return verdict
  } catch (error) {
    context.deps.log.error({ err: error, subject: delivery.subject, sequence: delivery.sequence }, 'delivery failed')
    context.stats.retried++
    return { retry: true, delay_ms: RETRY_MS }
  }
}

function dispatch(context: Context, delivery: Delivery): Promise<Verdict> {
  const { subjects } = context.deps.bus
  const parsed = subjects.parse(delivery.subject)
  if (parsed.kind === 'request') return handleRequest(context, delivery, parsed)
  if (parsed.kind === 'decision') return decideHeld(context, parsed)
  return handleNameless(context, delivery)
}

function handleRequest(context: Context, delivery: Delivery, parties: Parties): Promise<Verdict> {
  const reading = readRequest(delivery, parties)
  return reading.ok
    ? admitRequest(context, { delivery, parties, reading: reading.value })
    : refuseBad(context, { delivery, parties }, reading)
}

type BadReading = Extract<Reading, { ok: false }>

async function refuseBad(context: Context, { delivery, parties }: Omit<Asked, 'reading'>, bad: BadReading): Promise<Verdict> {
  const { error, reply_type } = bad
  const answer = await answerBad(context, {
    parties,
    sequence: delivery.sequence,
    time: delivery.time,
    data: delivery.data,
    error,
    reply_type,
  })
  if (!answer.ok) return { retry: true, delay_ms: RETRY_MS }
  context.stats.bad++
  context.deps.log.warn({ sequence: delivery.sequence, originator: parties.originator, reason: error.message }, 'request malformed')
  await context.deps.faults?.at('admission:before-ack')
  return { ok: true }
}

/** A subject whose tokens are no names: there is nobody to answer, so it is kept and told under `nobody`. */
async function handleNameless(context: Context, delivery: Delivery): Promise<Verdict> {
  const parties: Parties = { originator: NOBODY, subagent: NOBODY }
  const error = passError('E005', 'the subject does not name an originator and a subagent')
  const { sequence, time, data } = delivery
  const answer = await answerBad(context, { parties, sequence, time, data, error, reply_type: 'msgpack' })
  if (!answer.ok) return { retry: true, delay_ms: RETRY_MS }
  context.stats.bad++
  context.deps.log.warn({ sequence }, 'request without names')
  return { ok: true }
}
