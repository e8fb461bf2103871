import type { Plan, StoredMessage } from '@passover/bus'
import { DISPATCHER, decode, JournalTooLong } from '@passover/bus'
import { foldJournal, type JournalState, passError } from '@passover/core'
import { type AdvisoryFact, type PassError, type PassKey, PRIORITIES, type Step } from '@passover/schemas'
import { type RequestRef, systemReturn } from '../messages/journal-steps.js'
import { parseRequest } from '../messages/parse-request.js'
import { rejectUnderBadId, storeDeadLetter } from '../messages/reject.js'
import type { TimekeeperContext } from './end-pass.js'

/** Body of the server's advisory about a message that it will not deliver again. */
interface MaxDeliveries {
  stream_seq: number
  deliveries: number
}

/**
 * Handles a message that the server stopped delivering (docs/architecture/dispatcher.md#timekeeper). Work ends with E011, a request with a refusal,
 * both with a dead letter (I5). Returns false if it must run again.
 */
export async function handleAdvisory(context: TimekeeperContext, fact: AdvisoryFact): Promise<boolean> {
  const { bus } = context.deps
  const advisory = readAdvisory(await bus.journal.message(fact.sequence))
  const dead = advisory && (await bus.journal.message(advisory.stream_seq))
  if (!advisory || !dead) return true
  const parsed = bus.subjects.parseTrusted(dead)
  if (parsed.kind === 'step' && parsed.step === 'work' && isWorkConsumer(context, fact.consumer, parsed.key)) {
    return endUndeliverableWork(context, parsed.key, { dead, deliveries: advisory.deliveries, advised: fact.sequence })
  }
  if (parsed.kind === 'request' && fact.consumer === DISPATCHER)
    return refuseUndeliverableRequest(context, dead, { originator: parsed.originator, subagent: parsed.subagent })
  // A decision that the server stopped delivering is applied by the timekeeper, which keeps a list of decided passes that are still held.
  return true
}

function readAdvisory(stored: StoredMessage | undefined): MaxDeliveries | undefined {
  const body = stored && decode(stored.data, 'json')
  const value = body?.ok ? (body.value as Partial<MaxDeliveries> | null) : undefined
  if (!Number.isSafeInteger(value?.stream_seq)) return undefined
  return { stream_seq: Number(value?.stream_seq), deliveries: Number(value?.deliveries ?? 0) }
}

function isWorkConsumer(context: TimekeeperContext, consumer: string, key: PassKey): boolean {
  const { subjects } = context.deps.bus
  return PRIORITIES.some((priority) => subjects.workConsumer(key.subagent, priority) === consumer)
}

async function endUndeliverableWork(
  context: TimekeeperContext,
  key: PassKey,
  died: { dead: StoredMessage; deliveries: number; advised: number },
): Promise<boolean> {
  const knownSteps = await readSteps(context, key)
  if (!knownSteps) return true
  const { journal } = foldJournal(knownSteps, context.rules)
  // A fence after the advisory means that a re-created consumer has delivered the work to a worker.
  if (journal.state !== 'open' || journal.valid > died.advised) return true
  const error = lostWork(journal, died.deliveries)
  await context.deps.faults?.at('advisory:before-dead-letter')
  const kept = await storeDeadLetter(context, key, { sequence: died.dead.sequence, error })
  return kept.ok && (await publishEnd(context, key, { known: knownSteps, error, expect: 'open', before: died.advised }))
}

function lostWork(journal: Extract<JournalState, { state: 'open' }>, deliveries: number): PassError {
  const { attempt } = journal
  return passError('E011', `no worker finished the pass: the last of ${attempt} attempts was lost`, { attempts: attempt, deliveries })
}

async function refuseUndeliverableRequest(
  context: TimekeeperContext,
  dead: StoredMessage,
  parties: { originator: string; subagent: string },
): Promise<boolean> {
  const parsedRequest = parseRequest(dead, parties)
  const { sequence, time, data } = dead
  if (!parsedRequest.ok) {
    const { error, reply_type } = parsedRequest
    return (await rejectUnderBadId(context, { parties, sequence, time, data, error, reply_type })).ok
  }
  const { digest, reply_type } = parsedRequest.value
  const key = { ...parties, id: parsedRequest.value.request.id }
  const knownSteps = await readSteps(context, key)
  if (!knownSteps) return true
  if (foldJournal(knownSteps, context.rules).journal.state !== 'none') return true
  const error = passError('E014', 'no dispatcher could process the request', { retry_after_ms: 1_000 })
  const kept = await storeDeadLetter(context, key, { sequence, error, data })
  const request = { digest, request_sequence: sequence, requested_at: time, reply_type }
  return kept.ok && (await publishEnd(context, key, { known: knownSteps, error, expect: 'none', request }))
}

/** Reads the steps of a journal. `undefined` if the journal is flooded with steps and cannot be judged; its pass ends at the deadline. */
async function readSteps(context: TimekeeperContext, key: PassKey): Promise<Step[] | undefined> {
  try {
    return await context.deps.bus.journal.read(key)
  } catch (error) {
    if (error instanceof JournalTooLong) return undefined
    throw error
  }
}

interface EndOptions {
  known: Step[]
  error: PassError
  /** State that the journal must have for this end to apply. */
  expect: 'open' | 'none'
  /** The end applies only if no step after this sequence counts. */
  before?: number
  request?: RequestRef
}

async function publishEnd(context: TimekeeperContext, key: PassKey, how: EndOptions): Promise<boolean> {
  const { bus, faults } = context.deps
  const plan = (steps: Step[]): Plan<boolean> => {
    const { journal } = foldJournal(steps, context.rules)
    if (journal.state !== how.expect || journal.valid > (how.before ?? Number.MAX_SAFE_INTEGER)) return { done: true }
    const reply_type = journal.state === 'open' ? (journal.work.reply ?? 'msgpack') : 'msgpack'
    const position = { subjects: bus.subjects, key, guard: journal.last, nonce: context.nonce(), first: how.expect === 'none' }
    return { publish: systemReturn(position, how.error, how.request ?? { reply_type }), stored: () => true }
  }
  await faults?.at('advisory:before-publish')
  const advanced = await bus.journal.advance(key, plan, { read: 'leader', known: how.known, deadline_ms: context.options.step_deadline_ms })
  if (advanced.ok) context.stats.ended++
  return advanced.ok
}
