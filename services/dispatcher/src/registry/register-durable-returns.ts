import { passError } from '@passover/core'
import type { AgentRecord, RegisterAnswer } from '@passover/schemas'
import { MAX_TRIES, notStoredAnswer, publishRecordEvent, type RegistryContext, refusedAnswer, storeRecord } from './update-agent.js'

/**
 * Registers an agent for durable returns. The registry records this for the agent, not for one of its processes, so that all services know whose
 * returns may be reported late (E022). With open registration an agent may ask for it itself; otherwise a person must set it.
 */
export async function registerDurableReturns(context: RegistryContext, name: string): Promise<RegisterAnswer> {
  const { registry, options, deps } = context
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const { record: present, revision: over, isUnreadable } = await registry.writes.standing(name)
    if (isUnreadable) break
    if (present?.durable_returns) {
      await deps.bus.ensureReturns(name, present.durable_returns.from)
      return { ok: true }
    }
    const own = !present || present.registered_by === name
    if (options.registration === 'closed' || !own) {
      return refusedAnswer(
        passError(
          'E013',
          `returns are not kept for "${name}"; a person enables that with \`passover agents set ${name} --durable-returns\``,
        ),
      )
    }
    const from = (await deps.bus.bounds()).last + 1
    const record = asking(name, present, { from, now: deps.clock.now() })
    if (!(await publishRecordEvent(context, record))) return notStoredAnswer()
    // Another process may have written first, with the same or a different record, so read again.
    if ((await storeRecord(context, { record, over })) !== 'kept') continue
    await deps.bus.ensureReturns(name, from)
    return { ok: true }
  }
  return notStoredAnswer()
}

/** Returns a record with durable returns. An agent without one becomes no subagent and may originate as an unregistered agent may. */
function asking(name: string, before: AgentRecord | undefined, { from, now }: { from: number; now: number }): AgentRecord {
  const roles = before?.roles ?? { originates: 'always', subagent: false }
  return { ...before, name, roles, durable_returns: { from }, registered_by: name, updated_at: now }
}
