import { passError } from '@passover/core'
import {
  type AgentRecord,
  agentName,
  canonicalJson,
  type PassError,
  type RegisterAnswer,
  type RegisterQuestion,
  registerQuestion,
} from '@passover/schemas'
import { partsRefusal } from './parts-bucket.js'
import { registerDurableReturns } from './register-durable-returns.js'
import { MAX_TRIES, notStoredAnswer, publishRecordEvent, type RegistryContext, refusedAnswer, storeRecord } from './update-agent.js'
import type { WorkConsumers } from './work-consumers.js'

/**
 * Answers an agent that starts to work (decision 12). With open registration, an unknown agent becomes a subagent that may originate only within a
 * pass. Its event is stored before its record, so that the stream alone shows the rights of each agent at any time.
 */
export async function register(
  context: RegistryContext,
  consumers: WorkConsumers,
  asked: { name: string; question: unknown },
): Promise<RegisterAnswer> {
  const { registry, options, deps } = context
  const name = agentName.safeParse(asked.name)
  const question = registerQuestion.safeParse(asked.question ?? {})
  if (!name.success || !question.success) return refusedAnswer(passError('E005', 'not a registration'))
  if (question.data.known) return known(await registry.table.get(name.data), { name: name.data, question: question.data })
  if (question.data.durable_returns) return registerDurableReturns(context, name.data)
  const { record: present, revision: over, isUnreadable } = await registry.writes.standing(name.data)
  // A newer version of the dispatcher registered it and created its consumers.
  if (isUnreadable) return { ok: true }
  if (question.data.parts_only && (present || options.registration === 'open')) {
    return makeBucket(context, name.data, present)
  }
  const begins = present && !present.roles.subagent && present.registered_by === name.data && options.registration === 'open'
  if (present && !begins) {
    if (!present.roles.subagent) return refusedAnswer(notSubagent(name.data))
    return options.registration === 'open' ? describe(context, name.data, question.data) : { ok: true }
  }
  if (options.registration === 'closed') {
    return refusedAnswer(
      passError('E013', `"${name.data}" is not registered; a person registers it with \`passover agents add ${name.data}\``),
    )
  }
  const record = {
    ...newRecord(name.data, question.data, deps.clock.now()),
    ...(begins && present.durable_returns && { durable_returns: present.durable_returns }),
  }
  await deps.faults?.at('register:before-event')
  const told = await publishRecordEvent(context, record)
  if (!told) return notStoredAnswer()
  await deps.faults?.at('register:before-record')
  // Another dispatcher may have stored the same record first, or a person may have stored another one. That record stays.
  await storeRecord(context, { record, over })
  await deps.faults?.at('register:before-consumers')
  await consumers.make(record)
  deps.log.info({ agent: record.name }, 'agent registered itself')
  return { ok: true }
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

function known(
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
  return described({ name, roles: { originates: 'within_a_pass', subagent: true }, registered_by: name, updated_at: now }, question)
}

/** Returns the record with the agent's description of itself. Fields that the question omits stay unchanged. */
function described(record: AgentRecord, { description, skills, output_schema, limits }: RegisterQuestion): AgentRecord {
  const made = { ...record }
  if (description !== undefined) made.description = description
  if (skills) made.skills = skills
  if (output_schema || limits) made.defaults = { ...record.defaults, ...limits, ...(output_schema && { output_schema }) }
  return made
}

/** Updates the description of an agent that registered itself. A record written by a person is never changed. */
async function describe(context: RegistryContext, name: string, question: RegisterQuestion): Promise<RegisterAnswer> {
  const { deps, registry } = context
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const { record: present, revision: over } = await registry.writes.standing(name)
    if (present?.registered_by !== name) return { ok: true }
    const made = described(present, question)
    if (canonicalJson(made) === canonicalJson(present)) return { ok: true }
    const record = { ...made, updated_at: deps.clock.now() }
    if (!(await publishRecordEvent(context, record))) return notStoredAnswer()
    if ((await storeRecord(context, { record, over })) === 'kept') return { ok: true }
  }
  // The agent is registered in any case and may work.
  deps.log.warn({ agent: name }, 'workers register this agent with different settings at the same time; the last registration applies')
  return { ok: true }
}
