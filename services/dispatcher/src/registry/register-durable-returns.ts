import { passError } from '@passover/core'
import type { AgentRecord, RegisterAnswer } from '@passover/schemas'
import { type Change, notStoredAnswer, type RegistrationContext, type RegistryContext, refusedAnswer } from './update-agent.js'

/**
 * Registers an agent for durable returns. The registry records this for the agent, not for one of its processes, so that all services know whose
 * returns may be reported late (E022). With open registration an agent may ask for it itself; otherwise a person must set it.
 */
export async function registerDurableReturns(context: RegistrationContext, name: string): Promise<RegisterAnswer> {
  const { deps } = context
  const stored = await context.changes.store(context, name, () => changeOf(context, name))
  if ('answer' in stored) return stored.answer
  const { durable_returns } = stored.record
  if (durable_returns) await deps.bus.ensureReturns(name, durable_returns.from)
  return { ok: true }
}

async function changeOf({ registry, options, deps }: RegistryContext, name: string): Promise<Change> {
  const { record: present, revision: over, isUnreadable } = await registry.writes.standing(name)
  if (isUnreadable) return { answer: notStoredAnswer() }
  if (present?.durable_returns) {
    await deps.bus.ensureReturns(name, present.durable_returns.from)
    return { answer: { ok: true } }
  }
  const own = !present || present.registered_by === name
  if (options.registration === 'closed' || !own) {
    const message = `returns are not kept for "${name}"; a person enables that with \`passover agents set ${name} --durable-returns\``
    return { answer: refusedAnswer(passError('E013', message)) }
  }
  const from = (await deps.bus.bounds()).last + 1
  return { record: withDurableReturns(name, present, { from, now: deps.clock.now() }), over }
}

/** Returns a record with durable returns. An agent without a record does not become a subagent, and may originate passes like an unregistered agent. */
function withDurableReturns(name: string, before: AgentRecord | undefined, { from, now }: { from: number; now: number }): AgentRecord {
  const roles = before?.roles ?? { originates: 'always', subagent: false }
  return { ...before, name, roles, durable_returns: { from }, registered_by: name, updated_at: now }
}
