import { passError } from '@passover/core'
import {
  type AgentRecord,
  canonicalJson,
  newAgentName,
  type PassError,
  type RegisterAnswer,
  type RegisterQuestion,
  registerQuestion,
} from '@passover/schemas'
import { partsRefusal } from './parts-bucket.js'
import { registerDurableReturns } from './register-durable-returns.js'
import { type Change, type RegistrationContext, type RegistryContext, refusedAnswer } from './update-agent.js'
import type { WorkConsumers } from './work-consumers.js'

/**
 * Answers an agent that starts to work (decision 12). With open registration, an unknown agent becomes a subagent that may originate only within a
 * pass. Its event is stored before its record, so that the stream alone shows the rights of each agent at any time.
 */
export async function register(
  context: RegistrationContext,
  consumers: WorkConsumers,
  registration: { name: string; question: unknown },
): Promise<RegisterAnswer> {
  const { registry, options, deps } = context
  const name = newAgentName.safeParse(registration.name)
  const question = registerQuestion.safeParse(registration.question ?? {})
  if (!name.success || !question.success) return refusedAnswer(passError('E005', 'not a registration'))
  if (question.data.known) return answerKnown(await registry.table.get(name.data), { name: name.data, question: question.data })
  if (question.data.durable_returns) return registerDurableReturns(context, name.data)
  if (question.data.parts_only) {
    const { record, isUnreadable } = await registry.writes.standing(name.data)
    if (isUnreadable) return { ok: true }
    if (record || options.registration === 'open') return makeBucket(context, name.data, record)
  }
  const stored = await context.changes.store(context, name.data, () => changeOf(context, name.data, question.data))
  if ('answer' in stored) return stored.answer
  await deps.faults?.at('register:before-consumers')
  await consumers.make(stored.record)
  deps.log.info({ agent: name.data }, 'agent registered itself or changed its description')
  return { ok: true }
}

/** Returns the change of the stored record by a registration, if any. Never changes a record that a person wrote. */
async function changeOf({ registry, options, deps }: RegistryContext, name: string, question: RegisterQuestion): Promise<Change> {
  const { record: present, revision: over, isUnreadable } = await registry.writes.standing(name)
  // A newer version of the dispatcher registered it and created its consumers.
  if (isUnreadable) return { answer: { ok: true } }
  const isOpen = options.registration === 'open'
  if (present?.roles.subagent) {
    if (!isOpen || present.registered_by !== name) return { answer: { ok: true } }
    const changed = withDescription(present, question)
    if (canonicalJson(changed) === canonicalJson(present)) return { answer: { ok: true } }
    return { record: { ...changed, updated_at: deps.clock.now() }, over }
  }
  const begins = present?.registered_by === name && isOpen
  if (present && !begins) return { answer: refusedAnswer(notSubagent(name)) }
  if (!isOpen)
    return {
      answer: refusedAnswer(passError('E013', `"${name}" is not registered; a person registers it with \`passover agents add ${name}\``)),
    }
  const record = {
    ...newRecord(name, question, deps.clock.now()),
    ...(present?.durable_returns && { durable_returns: present.durable_returns }),
  }
  return { record, over }
}

/** Creates the agent's parts bucket. Answers E014 if the server cannot reserve space for it. */
async function makeBucket({ deps, options }: RegistryContext, name: string, record: AgentRecord | undefined): Promise<RegisterAnswer> {
  const parts_bytes = record?.parts_bytes ?? options.parts_bytes
  try {
    await deps.bus.ensureAgent(name, { subagent: false, max_attempts: 1, lease_ms: 1_000, parts_bytes })
  } catch (error) {
    const refusal = partsRefusal(error)
    if (refusal) return refusedAnswer(refusal)
    throw error
  }
  const parts = await deps.bus.partsUsage(name)
  return { ok: true, ...(parts && { parts }) }
}

function answerKnown(
  entry: { value: AgentRecord } | undefined,
  { name, question }: { name: string; question: RegisterQuestion },
): RegisterAnswer {
  const record = entry?.value
  if (question.durable_returns)
    return record?.durable_returns ? { ok: true } : refusedAnswer(passError('E041', `returns are not kept for "${name}"`))
  return record?.roles.subagent ? { ok: true } : refusedAnswer(passError('E001', `"${name}" is not registered as a subagent`))
}

function notSubagent(agent: string): PassError {
  const mend = `to let it receive passes: passover agents set ${agent} --subagent`
  return passError('E001', `"${agent}" is registered, but not as a subagent`, { agent, mend })
}

function newRecord(name: string, question: RegisterQuestion, now: number): AgentRecord {
  return withDescription({ name, roles: { originates: 'within_a_pass', subagent: true }, registered_by: name, updated_at: now }, question)
}

/** Returns the record with the agent's description of itself. Fields that the question omits stay unchanged. */
function withDescription(record: AgentRecord, { description, skills, output_schema, limits }: RegisterQuestion): AgentRecord {
  const changed = { ...record }
  if (description !== undefined) changed.description = description
  if (skills) changed.skills = skills
  if (output_schema || limits) changed.defaults = { ...record.defaults, ...limits, ...(output_schema && { output_schema }) }
  return changed
}
