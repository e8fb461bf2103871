import type { Plan, PublishMessage, PublishResult } from '@passover/bus'
import { type DueEnd, firstStepIsLate, foldJournal, type JournalRules, type JournalState, type OpenPasses, passError } from '@passover/core'
import { keyText, type PassError, type Step, SYSTEM } from '@passover/schemas'
import type { Context } from '../admission/context.js'
import { type RequestRef, systemReturn } from '../messages/journal-steps.js'
import { findUntried, type UntriedWork, untriedError } from './untried-work.js'

/**
 * Milliseconds to wait for the acknowledgment of a published return. A publish to a stream without a leader is lost, so it is repeated after this
 * time and passes end soon after a leader is elected (P2).
 */
const ANSWER_TIMEOUT_MS = 2_000

/** State that the parts of a timekeeper share: the dispatcher's context and the fold of open passes. */
export interface TimekeeperContext extends Context {
  open: OpenPasses
}

/** `mine`: this return was stored. `ended`: the pass has another return. `gone`: its journal was closed and deleted. `wait`: it is no longer due. */
export type EndResult = { kind: 'ended' | 'mine' | 'gone' | 'wait' } | { kind: 'failed'; outcome: PublishResult }

/**
 * Publishes a terminal return that is due, guarded on the last step seen. If it is not stored, decides again from the journal at the leader (I4).
 * `request` is given for a pass that never began: the return is then its first step (rule 6).
 */
export async function endPass(context: TimekeeperContext, due: DueEnd, request?: RequestRef): Promise<EndResult> {
  const { deps, options, open } = context
  let current = due
  const untried = await findUntried(context, due)
  const publish = (message: PublishMessage): Plan<EndResult> => ({
    publish: { ...message, answer_ms: ANSWER_TIMEOUT_MS },
    stored: () => ({ kind: 'mine' }),
  })
  const plan = (steps: Step[], tries: number): Plan<EndResult> => {
    if (tries > 0) {
      const settled = open.settle(current, steps, deps.clock.now())
      if (settled.kind !== 'again') return { done: { kind: settled.kind } }
      current = settled.due
    }
    const message = returnOf(context, current, { request, untried })
    return publish(current.last_resort === undefined ? message : lastResort(context, message, { due, steps }))
  }
  /** Handles a journal flooded with steps, which cannot be folded completely. Only a return by the system is certain to be its end. */
  const too_long = (steps: Step[]): Plan<EndResult> => {
    if (isEnded(steps, context.rules)) return { done: { kind: 'ended' } }
    return publish(lastResort(context, returnOf(context, current, { request, untried }), { due, steps }))
  }
  await deps.faults?.at('ending:before-publish')
  const how = { read: 'leader' as const, deadline_ms: options.step_deadline_ms, too_long }
  const advanced = await deps.bus.journal.advance(due.key, plan, how)
  await deps.faults?.at('ending:after-publish')
  if (advanced.ok) return advanced.value
  deps.log.warn({ ...due.key, outcome: advanced.outcome }, 'end of the pass not stored; retrying')
  return { kind: 'failed', outcome: advanced.outcome }
}

function returnOf(
  context: TimekeeperContext,
  due: DueEnd,
  { request, untried }: { request: RequestRef | undefined; untried: UntriedWork | undefined },
): PublishMessage {
  // Another dispatcher may have begun the pass since.
  const unbegunRequest = due.journal.state === 'none' ? request : undefined
  const position = {
    subjects: context.deps.bus.subjects,
    key: due.key,
    guard: due.guard,
    nonce: context.nonce(),
    first: unbegunRequest !== undefined,
  }
  return systemReturn(position, errorOf(due, context, untried), unbegunRequest ?? requestRefOf(due.journal))
}

function isEnded(steps: Step[], rules: JournalRules): boolean {
  const { journal } = foldJournal(steps, rules)
  if (journal.state === 'done' && journal.return.by === SYSTEM) return true
  return steps.some((step) => step.kind === 'return' && step.by === SYSTEM && step.untrusted === undefined && !firstStepIsLate(step, rules))
}

/**
 * Guards the return on the system's own returns only, which no worker can store, so that it is stored regardless of how fast a worker stores steps.
 * If a real return was stored before it, all readers ignore this one. The guard also expects a system return that does not count (rule 5).
 */
function lastResort(context: TimekeeperContext, message: PublishMessage, seen: { due: DueEnd; steps: Step[] }): PublishMessage {
  const last = seen.steps.findLast(({ kind, by }) => kind === 'return' && by === SYSTEM)
  return { ...message, guard: { subject: context.deps.bus.subjects.return(seen.due.key, SYSTEM), sequence: last?.sequence ?? 0 } }
}

function requestRefOf(journal: JournalState): Partial<RequestRef> {
  const step = journal.state === 'held' ? journal.held : journal.state === 'open' ? journal.work : undefined
  return { reply_type: step?.reply ?? 'msgpack', traceparent: step?.traceparent }
}

function errorOf(due: DueEnd, context: TimekeeperContext, untried: UntriedWork | undefined): PassError {
  const { journal, code, why } = due
  switch (why) {
    case 'deadline passed': {
      const timeout_ms = journal.state === 'open' ? journal.deadline - journal.work.time : undefined
      const attempts = journal.state === 'open' ? journal.attempt : 0
      // A fence stored meanwhile means that a worker has tried the pass.
      if (untried && attempts <= 1) return untriedError(due, { timeout_ms, untried })
      return passError(code, `no return within ${timeout_ms} ms`, { timeout_ms, attempts })
    }
    case 'approval expired':
    case "parent's deadline passed":
      return passError(code, `not approved in time: ${why}`, { approval: 'expired' })
    case 'never admitted':
      return passError(code, 'no dispatcher admitted the request in time', { admitted: false })
    case 'id expired':
      return passError(code, `the id "${due.key.id}" has expired`, { reason: 'expired', server_time: context.deps.clock.now() })
    case 'parent ended':
    case 'earlier attempt':
      return passError(
        code,
        why === 'parent ended' ? 'its parent ended' : 'its parent continued with a later attempt',
        cascadeDetails(journal),
      )
    case 'cancelled':
      return passError(code, 'the pass was cancelled')
  }
}

function cascadeDetails(journal: JournalState): Record<string, unknown> {
  const step = journal.state === 'open' ? journal.work : journal.state === 'held' ? journal.held : undefined
  return { because: 'parent', ...(step?.parent && { parent: keyText(step.parent) }) }
}
