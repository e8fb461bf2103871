import { encode } from '@passover/bus'
import { type AgentBody, type AgentRecord, type PassError, type RegisterAnswer, WIRE_VERSION } from '@passover/schemas'
import type { Context } from './context.js'

/** A record's event is stored before the record, so that the stream alone tells who could do what. False: it was not. */
export async function tell({ bus }: Context['deps'], record: AgentRecord): Promise<boolean> {
  const body: AgentBody = { v: WIRE_VERSION, name: record.name, record }
  const outcome = await bus.publish({ subject: bus.subjects.agent('passover'), data: encode(body, 'msgpack') })
  return outcome.kind === 'stored'
}

export function refused(error: PassError): RegisterAnswer {
  return { ok: false, error }
}
