/**
 * Stage 4 of a pass, first half. In: delivered work. Out: the decision to run its handler as attempt n, or what to do with the delivery instead.
 * Reads the journal and publishes a fence if the attempt may not be the first one.
 */

import { type Bus, type Delivery, encode, type PublishMessage } from '@passover/bus'
import { firstStepIsLate, type JournalRules } from '@passover/core'
import { HEADER, type PassKey, type Priority, type Step, SYSTEM, soundTraceparent } from '@passover/schemas'
import { isLateFirst, type ViewRules, viewJournal } from '../journal/journal-view.js'
import { type Deps, sleep } from '../runtime/dependencies.js'
import type { ConsumerAges } from './consumer-ages.js'
import { type AttemptDecision, type DeliveryFacts, decideAttempt, isPastDeadline, isSuspect } from './decide-attempt.js'

const EMPTY = encode({ v: 1 })
const OVER: AttemptStart = { kind: 'leave', why: 'over' }

/** Milliseconds for which requests are repeated: a cluster may have no leader for that long. */
const TIMEOUT_MS = 15_000
const RETRY_DELAY_MS = 250

/** Dependencies of beginning an attempt. */
export interface AttemptContext {
  deps: Deps
  agent: string
  rules: ViewRules
  consumers: ConsumerAges
}

/** Criteria for the order in which suspect passes run alone. */
export interface SuspectRank {
  /** Number of the attempt that is about to begin. Passes that lost fewer attempts come first. */
  attempt: number
  /** True if this is the last attempt. */
  last: boolean
  /** Milliseconds after which the attempt begins even if other passes run, because its deadline does not stop. */
  max_wait_ms: number
}

export interface WorkDelivery {
  key: PassKey
  priority: Priority
  delivery: Delivery
  max_attempts: number
  timeout_ms: number
  nonce: string
  /** Waits until the attempt at a suspect pass may begin (see `CrashIsolation`). Resolves to false if it must not begin any more. */
  turn: (rank: SuspectRank) => Promise<boolean>
}

/** A final decision that needs no further read of the journal. */
export type AttemptStart = Exclude<AttemptDecision, { kind: 'read' | 'fence' }>

/**
 * Begins an attempt, or decides that none may begin (docs/architecture/worker.md#begin-fence-or-leave). For a recent first delivery it returns the
 * decision itself and not a promise, so that the hot path never waits.
 */
export function beginAttempt(context: AttemptContext, work: WorkDelivery): AttemptStart | Promise<AttemptStart> {
  if (isLate(context, work)) return { kind: 'leave', why: 'not_found' }
  const now = context.deps.clock.now()
  const created = context.consumers.cachedCreation(work.priority, work.delivery, now)
  if (created !== undefined) {
    const decision = decideAttempt(factsOf(context, work, { created, now }))
    if (decision.kind === 'run') return decision
  }
  return readAndFence(context, work)
}

/** Applies rule 5 to the delivery alone. The step is parsed completely only if its time is too late. */
function isLate({ deps, rules }: { deps: Deps; rules: JournalRules }, { key, delivery }: WorkDelivery): boolean {
  const requested_at = Number(delivery.headers.get(HEADER.requestedAt) ?? Number.NaN)
  if (!firstStepIsLate({ key, time: delivery.time, requested_at }, rules)) return false
  const step = deps.bus.subjects.toFact(delivery)
  return step.type === 'step' && isLateFirst(step, rules)
}

async function readAndFence(context: AttemptContext, work: WorkDelivery): Promise<AttemptStart> {
  const { deps } = context
  const { key } = work
  await deps.faults?.at('worker:before-read', key)
  const read = await readWhenItsTurn(context, work)
  if (!read) return { kind: 'leave', why: 'unclear' }
  const first = decideAttempt(read.facts, viewJournal(read.steps, context.rules))
  if (first.kind === 'fence') await deps.faults?.at('worker:before-fence', key)
  const plan = (steps: Step[]) => {
    const decision = decideAttempt(read.facts, viewJournal(sinceWork(steps, work), context.rules))
    if (decision.kind === 'read') throw new TypeError('a view was given')
    if (decision.kind !== 'fence') return { done: decision }
    const began = (sequence: number): AttemptStart => ({ kind: 'run', attempt: decision.attempt, guard: sequence, proof: sequence })
    return { publish: fenceStep(context, work, decision), stored: began }
  }
  const published = deps.clock.monotonic()
  const advanced = await deps.bus.journal.advance<AttemptStart>(key, plan, { read: 'glimpse', known: read.steps, deadline_ms: TIMEOUT_MS })
  if (first.kind === 'fence') await deps.faults?.at('worker:after-fence', key)
  if (!advanced.ok) return { kind: 'leave', why: 'unclear' }
  if (advanced.value.kind !== 'run') return advanced.value
  return unlessPastDeadline(context, work, { facts: read.facts, run: advanced.value, published })
}

interface JournalRead {
  facts: DeliveryFacts
  steps: Step[]
}

/**
 * Reads the facts and steps for the decision. A pass that may have crashed another process first waits for its turn and is then read again, because
 * other workers may have advanced it.
 */
async function readWhenItsTurn(context: AttemptContext, work: WorkDelivery): Promise<JournalRead | undefined> {
  const read = await readAll(context, work)
  if (!read) return undefined
  const view = viewJournal(read.steps, context.rules)
  const decision = decideAttempt(read.facts, view)
  if (decision.kind !== 'fence' || !isSuspect(read.facts, view)) return read
  const { stored_at, timeout_ms, now } = read.facts
  const rank = { attempt: decision.attempt, last: decision.attempt >= work.max_attempts, max_wait_ms: (stored_at + timeout_ms - now) / 2 }
  const admitted = await work.turn(rank)
  return admitted ? readAll(context, work) : undefined
}

type RunDecision = Extract<AttemptStart, { kind: 'run' }>

/**
 * Returns `run` unless the deadline has passed while the fence was being stored. If the server's time is unknown (the connection was just made, or
 * answers too slowly for a measurement), the stored time of the fence bounds it: the fence was stored between its publish and its acknowledgment
 * (decision 66). While the bounds leave it open whether the deadline has passed, waits until they or a measurement tell.
 *
 * @param published - Monotonic time before the fence was published.
 */
async function unlessPastDeadline(
  context: AttemptContext,
  work: WorkDelivery,
  { facts, run, published }: { facts: DeliveryFacts; run: RunDecision; published: number },
): Promise<AttemptStart> {
  const { bus, clock } = context.deps
  const acknowledged = clock.monotonic()
  const isPast = (now: number): boolean => isPastDeadline({ ...facts, now, clock_measured: true })
  for (;;) {
    if (bus.clockMeasured) return isPast(clock.now()) ? OVER : run
    // Without a fence nothing was stored since the deadline was last checked.
    if (run.attempt === 1) return run
    const fence = await bus.journal.last(bus.subjects.fence(work.key, context.agent)).catch(() => undefined)
    // A lagging replica does not have the fence yet.
    if (fence && fence.sequence >= run.guard) {
      const now = clock.monotonic()
      if (!isPast(fence.time + now - published)) return run
      if (isPast(fence.time + now - acknowledged)) return OVER
    }
    if (clock.monotonic() - acknowledged >= TIMEOUT_MS) return { kind: 'leave', why: 'unclear' }
    await sleep(clock, RETRY_DELAY_MS)
  }
}

/** Reads journal and consumer, and retries while the server cannot be read. The lease is renewed meanwhile. */
async function readAll(context: AttemptContext, work: WorkDelivery): Promise<JournalRead | undefined> {
  const { bus, clock } = context.deps
  const until = clock.monotonic() + TIMEOUT_MS
  for (;;) {
    try {
      const [created, steps] = await Promise.all([context.consumers.creation(work.priority), stepsOf(bus, work)])
      return { facts: factsOf(context, work, { created, now: clock.now() }), steps }
    } catch {
      if (clock.monotonic() >= until) return undefined
      await sleep(clock, RETRY_DELAY_MS)
    }
  }
}

/** Reads the steps that a worker needs to decide. Its work has only one priority, and an earlier held step does not matter. */
async function stepsOf(bus: Bus, work: WorkDelivery): Promise<Step[]> {
  const { key, priority } = work
  const { subjects } = bus
  const exact = [
    subjects.work(key, priority),
    subjects.fence(key, key.subagent),
    subjects.return(key, key.subagent),
    subjects.return(key, SYSTEM),
  ]
  const messages = await Promise.all(exact.map((subject) => bus.journal.last(subject)))
  const steps = messages.flatMap((stored) => {
    const fact = stored && subjects.toFact(stored)
    return fact?.type === 'step' ? [fact] : []
  })
  return sinceWork(steps, work)
}

/**
 * Omits steps that were stored before the delivered work. They belong to an earlier use of the id: they have been deleted, and a lagging replica, which
 * may not have the work either, still shows them.
 */
function sinceWork(steps: Step[], { delivery }: WorkDelivery): Step[] {
  return steps.filter(({ sequence }) => sequence >= delivery.sequence)
}

function factsOf(context: AttemptContext, work: WorkDelivery, at: { created: number | undefined; now: number }): DeliveryFacts {
  const { bus } = context.deps
  const { delivery, max_attempts, timeout_ms, nonce } = work
  return {
    delivered: delivery.delivered,
    sequence: delivery.sequence,
    stored_at: delivery.time,
    now: at.now,
    connected_at: bus.connectedAt(),
    clock_measured: bus.clockMeasured,
    consumer_created_at: at.created,
    max_attempts,
    timeout_ms,
    id_window_ms: context.rules.id_window_ms,
    nonce,
  }
}

function fenceStep(context: AttemptContext, work: WorkDelivery, fence: { attempt: number; guard: number }): PublishMessage {
  const { subjects } = context.deps.bus
  const traceparent = soundTraceparent(work.delivery.headers.get(HEADER.traceparent))
  const headers: Record<string, string> = { [HEADER.attempt]: String(fence.attempt), [HEADER.nonce]: work.nonce }
  if (traceparent !== undefined) headers[HEADER.traceparent] = traceparent
  return {
    subject: subjects.fence(work.key, context.agent),
    headers,
    data: EMPTY,
    guard: { subject: subjects.journal(work.key), sequence: fence.guard },
  }
}
