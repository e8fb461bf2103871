import { passError } from '@passover/core'
import type { AgentRecord, RegisterAnswer } from '@passover/schemas'
import { MAX_TRIES, notStoredAnswer, publishRecordEvent, type RegistryContext, refusedAnswer, storeRecord } from './update-agent.js'

/**
 * An agent asks that returns wait for it while it is away. That stands in the registry, so that everybody knows for whom a return may
 * be late (E022), whichever of its processes asked: where registration is open by its own word, else by a person's.
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
        passError('E013', `returns do not wait for "${name}": a person lets them by \`passover agents set ${name} --durable-returns\``),
      )
    }
    const from = (await deps.bus.bounds()).last + 1
    const record = asking(name, present, { from, now: deps.clock.now() })
    if (!(await publishRecordEvent(context, record))) return notStoredAnswer()
    // Somebody else may have been faster, with the same or something else that stands.
    if ((await storeRecord(context, { record, over })) !== 'kept') continue
    await deps.bus.ensureReturns(name, from)
    return { ok: true }
  }
  return notStoredAnswer()
}

/** Nobody passes over to it yet; it goes on passing over as whoever is not registered. */
function asking(name: string, before: AgentRecord | undefined, { from, now }: { from: number; now: number }): AgentRecord {
  const roles = before?.roles ?? { originates: 'always', subagent: false }
  return { ...before, name, roles, durable_returns: { from }, registered_by: name, updated_at: now }
}
