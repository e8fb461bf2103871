import { encode } from '@passover/bus'
import { passError } from '@passover/core'
import {
  type AgentBody,
  type AgentRecord,
  agentName,
  type PassError,
  type RegisterAnswer,
  type RegisterQuestion,
  registerQuestion,
  WIRE_VERSION,
} from '@passover/schemas'
import type { Context } from './context.js'
import type { WorkConsumers } from './work-consumers.js'

/**
 * Answers an agent that begins to work (D12). Open registration: an unknown one becomes a subagent that may originate only
 * within a pass. Its event is stored before its record, so that the stream alone tells who could do what.
 */
export async function register(
  context: Context,
  consumers: WorkConsumers,
  asked: { name: string; question: unknown },
): Promise<RegisterAnswer> {
  const { registry, options, deps } = context
  const name = agentName.safeParse(asked.name)
  const question = registerQuestion.safeParse(asked.question ?? {})
  if (!name.success || !question.success) return refused(passError('E005', 'not a registration'))
  const present = (await registry.table.get(name.data))?.value
  if (question.data.parts_only && (present || options.registration === 'open')) {
    await deps.bus.ensureAgent(name.data, { subagent: false, max_attempts: 1, lease_ms: 1_000 })
    return { ok: true }
  }
  if (present)
    return present.roles.subagent ? { ok: true } : refused(passError('E001', `"${name.data}" is registered, but not as a subagent`))
  if (options.registration === 'closed') {
    return refused(passError('E013', `"${name.data}" is not registered: a person adds it with \`passover agents add ${name.data}\``))
  }
  const record = newRecord(name.data, question.data, deps.clock.now())
  await deps.faults?.at('register:before-event')
  const told = await tell(context, record)
  if (!told) return refused(passError('E014', 'the registration could not be stored', { retry_after_ms: 1_000 }))
  await deps.faults?.at('register:before-record')
  // Undefined: another dispatcher was faster, with the same record or a person's.
  await registry.table.create(record.name, record)
  await deps.faults?.at('register:before-consumers')
  await consumers.make(record)
  deps.log.info({ agent: record.name }, 'agent registered itself')
  return { ok: true }
}

function newRecord(name: string, { parts_only: _, ...about }: RegisterQuestion, now: number): AgentRecord {
  return { name, roles: { originates: 'within_a_pass', subagent: true }, ...about, registered_by: name, updated_at: now }
}

async function tell(context: Context, record: AgentRecord): Promise<boolean> {
  const { bus } = context.deps
  const body: AgentBody = { v: WIRE_VERSION, name: record.name, record }
  const outcome = await bus.publish({ subject: bus.subjects.agent('passover'), data: encode(body, 'msgpack') })
  return outcome.kind === 'stored'
}

function refused(error: PassError): RegisterAnswer {
  return { ok: false, error }
}
