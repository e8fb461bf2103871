import { type DueEnd, foldJournal, resolvePolicy, SYSTEM_DEFAULTS } from '@passover/core'
import type { PassKey, RequestFact } from '@passover/schemas'
import type { RequestRef } from '../messages/journal-steps.js'
import { type ParsedRequest, parseRequest } from '../messages/parse-request.js'
import { firstDigest, readSteps } from '../messages/read-journal.js'
import { idConflict, rejectMalformed, rejectUnderBadId } from '../messages/reject.js'
import { endPass, type TimekeeperContext } from './end-pass.js'

/** A request as read again from the leader. */
type RereadRequest = { kind: 'gone' | 'bad' | 'failed' } | { kind: 'read'; key: PassKey; parsed: ParsedRequest; ref: RequestRef }

/**
 * Reads a request completely that has had no answer for some seconds. Either it has an answer, or it is malformed, or it waits for a dispatcher
 * until the deadline in its body (its headers may be wrong). If this does not update the fold, the request is checked again later.
 */
export async function checkUnanswered(context: TimekeeperContext, fact: RequestFact): Promise<void> {
  const { open, deps } = context
  const request = await reread(context, fact)
  if (request.kind === 'failed') return
  if (request.kind !== 'read') return open.forget(fact.sequence)
  const { key, parsed, ref } = request
  const { journal } = foldJournal(await readSteps(deps.bus, key), context.rules)
  if (journal.state === 'none') return open.learn(fact.sequence, { key, timeout_ms: timeoutOf(context, parsed) })
  const first = firstDigest(journal)
  if (first === undefined || first === ref.digest || (await rejectConflict(context, fact, request))) open.forget(fact.sequence)
}

/** Ends a pass that never began. Its return is the answer to its request. */
export async function endUnanswered(context: TimekeeperContext, due: DueEnd, fact: RequestFact): Promise<void> {
  const { open } = context
  const request = await reread(context, fact)
  if (request.kind === 'failed') return
  if (request.kind !== 'read') return open.forget(fact.sequence)
  const { key, parsed, ref } = request
  // The header named a different pass than the body. The fold now has the pass of the body.
  if (key.id !== due.key.id) return open.learn(fact.sequence, { key, timeout_ms: timeoutOf(context, parsed) })
  const ended = await endPass(context, due, ref)
  if (ended.kind === 'mine') context.stats.ended++
}

async function reread(context: TimekeeperContext, fact: RequestFact): Promise<RereadRequest> {
  const stored = await context.deps.bus.journal.message(fact.sequence)
  if (!stored) return { kind: 'gone' }
  const parties = { originator: fact.originator, subagent: fact.subagent }
  const parsed = parseRequest(stored, parties)
  if (parsed.ok) {
    const { digest, reply_type, traceparent, request } = parsed.value
    const ref = { digest, request_sequence: stored.sequence, requested_at: stored.time, reply_type, traceparent }
    return { kind: 'read', key: { ...parties, id: request.id }, parsed: parsed.value, ref }
  }
  await context.deps.faults?.at('look:before-publish')
  const { sequence, time, data } = stored
  const { error, reply_type, id } = parsed
  const answer = await rejectMalformed(context, { parties, sequence, time, data, error, reply_type, id })
  return { kind: answer.ok ? 'bad' : 'failed' }
}

async function rejectConflict(
  context: TimekeeperContext,
  fact: RequestFact,
  request: Extract<RereadRequest, { kind: 'read' }>,
): Promise<boolean> {
  const { originator, subagent, sequence, time } = fact
  const { digest, reply_type } = request.ref
  const error = idConflict(request.key.id)
  const bad = { parties: { originator, subagent }, sequence, time, data: new Uint8Array(0), error, reply_type, digest }
  return (await rejectUnderBadId(context, bad)).ok
}

/** Returns the timeout that admission would set from the request and the policy. Ignores the parent. */
function timeoutOf(context: TimekeeperContext, { request }: ParsedRequest): number {
  const { originating_agent_id: from, subagent_id: to, timeout_ms, auto_apply_on_success, override } = request
  const settings = {
    ...(timeout_ms !== undefined && { timeout_ms }),
    ...(auto_apply_on_success !== undefined && { auto_apply_on_success }),
  }
  const policy = resolvePolicy(context.policy.current().document, { from, to, request: settings, ...(override && { override }) })
  return policy.ok ? policy.value.effective.timeout_ms : SYSTEM_DEFAULTS.timeout_ms
}
