import { type Bus, type Delivery, encode, type PublishMessage, type WorkSource } from '@passover/bus'
import { firstStepIsLate, type JournalRules } from '@passover/core'
import { HEADER, type PassKey, type Priority, type Step, SYSTEM, soundTraceparent } from '@passover/schemas'
import { isLateFirst, type ViewRules, viewJournal } from '../journal/journal-view.js'
import { type Deps, sleep } from '../runtime/dependencies.js'
import { type AttemptDecision, type DeliveryFacts, decideAttempt, FRESH_MS, isOver, isSuspect } from './decide-attempt.js'

const EMPTY = encode({ v: 1 })

/** Milliseconds for which requests are repeated: a cluster may be without a leader for that long. */
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
  /** Milliseconds after which the attempt begins whatever else runs, because its deadline keeps running. */
  patience_ms: number
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
  const created = context.consumers.known(work.priority, work.delivery, now)
  if (created !== undefined) {
    const decision = decideAttempt(factsOf(context, work, { created, now }))
    if (decision.kind === 'run') return decision
  }
  return readAndBegin(context, work)
}

/** Applies rule 5 to the delivery alone. The step is parsed completely only if its time is too late. */
function isLate({ deps, rules }: { deps: Deps; rules: JournalRules }, { key, delivery }: WorkDelivery): boolean {
  const requested_at = Number(delivery.headers.get(HEADER.requestedAt) ?? Number.NaN)
  if (!firstStepIsLate({ key, time: delivery.time, requested_at }, rules)) return false
  const step = deps.bus.subjects.toFact(delivery)
  return step.type === 'step' && isLateFirst(step, rules)
}

async function readAndBegin(context: AttemptContext, work: WorkDelivery): Promise<AttemptStart> {
  const { deps } = context
  const { key } = work
  await deps.faults?.at('worker:before-read', key)
  const read = await readInTurn(context, work)
  if (!read) return { kind: 'leave', why: 'unclear' }
  const first = decideAttempt(read.facts, viewJournal(read.steps, context.rules))
  if (first.kind === 'fence') await deps.faults?.at('worker:before-fence', key)
  const plan = (found: Step[]) => {
    const decision = decideAttempt(read.facts, viewJournal(sinceWork(found, work), context.rules))
    if (decision.kind === 'read') throw new TypeError('a view was given')
    if (decision.kind !== 'fence') return { done: decision }
    const began = (sequence: number): AttemptStart => ({ kind: 'run', attempt: decision.attempt, guard: sequence, proof: sequence })
    return { publish: fenceStep(context, work, decision), stored: began }
  }
  const advanced = await deps.bus.journal.advance<AttemptStart>(key, plan, { read: 'glimpse', known: read.steps, deadline_ms: TIMEOUT_MS })
  if (first.kind === 'fence') await deps.faults?.at('worker:after-fence', key)
  if (!advanced.ok) return { kind: 'leave', why: 'unclear' }
  return advanced.value.kind === 'run' ? unlessOver(context, work, { facts: read.facts, run: advanced.value }) : advanced.value
}

interface Read {
  facts: DeliveryFacts
  steps: Step[]
}

/**
 * Reads the facts and steps for the decision. A pass that may have crashed another process first waits for its turn and is then read again, because
 * other workers may have advanced it.
 */
async function readInTurn(context: AttemptContext, work: WorkDelivery): Promise<Read | undefined> {
  const read = await readAll(context, work)
  if (!read) return undefined
  const view = viewJournal(read.steps, context.rules)
  const decision = decideAttempt(read.facts, view)
  if (decision.kind !== 'fence' || !isSuspect(read.facts, view)) return read
  const { stored_at, timeout_ms, now } = read.facts
  const rank = { attempt: decision.attempt, last: decision.attempt >= work.max_attempts, patience_ms: (stored_at + timeout_ms - now) / 2 }
  const admitted = await work.turn(rank)
  return admitted ? readAll(context, work) : undefined
}

type Running = Extract<AttemptStart, { kind: 'run' }>

/**
 * Returns `run` unless the deadline has passed while the fence was being stored. If the server's time is unknown (the connection was just made, or
 * answers too slowly for a measurement), the stored time of the fence is used as a lower bound (decision 66).
 */
async function unlessOver(
  context: AttemptContext,
  work: WorkDelivery,
  { facts, run }: { facts: DeliveryFacts; run: Running },
): Promise<AttemptStart> {
  const { bus, clock } = context.deps
  const acknowledged = clock.monotonic()
  const unlessAt = (now: number): AttemptStart => (isOver({ ...facts, now, clock_measured: true }) ? { kind: 'leave', why: 'over' } : run)
  for (;;) {
    if (bus.clockMeasured) return unlessAt(clock.now())
    // Without a fence nothing was stored since the deadline was last checked.
    if (run.attempt === 1) return run
    const fence = await bus.journal.last(bus.subjects.fence(work.key, context.agent)).catch(() => undefined)
    // A lagging replica does not have the fence yet.
    if (fence && fence.sequence >= run.guard) return unlessAt(fence.time + clock.monotonic() - acknowledged)
    if (clock.monotonic() - acknowledged >= TIMEOUT_MS) return { kind: 'leave', why: 'unclear' }
    await sleep(clock, RETRY_DELAY_MS)
  }
}

/** Reads journal and consumer, and retries while the server cannot be read. The lease is renewed meanwhile. */
async function readAll(context: AttemptContext, work: WorkDelivery): Promise<Read | undefined> {
  const { bus, clock } = context.deps
  const until = clock.monotonic() + TIMEOUT_MS
  for (;;) {
    try {
      const [created, steps] = await Promise.all([context.consumers.ask(work.priority), stepsOf(bus, work)])
      return { facts: factsOf(context, work, { created, now: clock.now() }), steps }
    } catch {
      if (clock.monotonic() >= until) return undefined
      await sleep(clock, RETRY_DELAY_MS)
    }
  }
}

/** Reads the steps that a worker decides by. Its work can be in one priority only, and an earlier held step is irrelevant. */
async function stepsOf(bus: Bus, work: WorkDelivery): Promise<Step[]> {
  const { key, priority } = work
  const { subjects } = bus
  const exact = [
    subjects.work(key, priority),
    subjects.fence(key, key.subagent),
    subjects.return(key, key.subagent),
    subjects.return(key, SYSTEM),
  ]
  const found = await Promise.all(exact.map((subject) => bus.journal.last(subject)))
  const steps = found.flatMap((stored) => {
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

interface Age {
  created: number | undefined
  /** Time of the request to the server, in monotonic ms. */
  asked_at: number
  asking: Promise<number | undefined> | undefined
  consumer_sequence: number
}

/**
 * Caches the creation times of the work consumers (docs/architecture/worker.md#begin-fence-or-leave). The dispatcher recreates a lost consumer no
 * sooner than 3 s after it noticed the loss. So an answer that is younger than 2 s is still valid, and work younger than 2 s cannot have been
 * delivered by an earlier consumer.
 */
export class ConsumerAges {
  readonly #sources: Record<Priority, WorkSource>
  readonly #monotonic: () => number
  readonly #ages = new Map<Priority, Age>()

  constructor(sources: Record<Priority, WorkSource>, monotonic: () => number) {
    this.#sources = sources
    this.#monotonic = monotonic
  }

  /** Records a delivery. If the delivery count of its consumer went backwards, the consumer was recreated and its creation time is discarded. */
  seen(priority: Priority, delivery: Delivery): void {
    const age = this.#ages.get(priority)
    if (!age) return
    if (delivery.consumer_sequence <= age.consumer_sequence) this.#ages.delete(priority)
    else age.consumer_sequence = delivery.consumer_sequence
  }

  /** Returns the creation time if it is known without a request, else `undefined`. */
  known(priority: Priority, delivery: Delivery, now: number): number | undefined {
    return now - delivery.time < FRESH_MS ? this.#ages.get(priority)?.created : undefined
  }

  /** Discards the creation time because the consumer is gone. */
  forget(priority: Priority): void {
    this.#ages.delete(priority)
  }

  /** Requests the creation time from the server, unless a request was made within the last 2 s. Throws the errors of reading. */
  async ask(priority: Priority): Promise<number | undefined> {
    const before = this.#ages.get(priority)
    const now = this.#monotonic()
    if (before?.asking) return before.asking
    if (before?.created !== undefined && now - before.asked_at < FRESH_MS) return before.created
    const asking = this.#sources[priority].created()
    const age: Age = { created: before?.created, asked_at: now, asking, consumer_sequence: before?.consumer_sequence ?? 0 }
    this.#ages.set(priority, age)
    try {
      age.created = await asking
      age.asking = undefined
      return age.created
    } catch (error) {
      if (this.#ages.get(priority) === age) this.#ages.delete(priority)
      throw error
    }
  }
}
