import { tellAgent } from '@passover/bus'
import type { AgentRecord, PassError, RegisterAnswer } from '@passover/schemas'
import type { Context } from './context.js'

/** A record's event is stored before the record, so that the stream alone tells who could do what. False: it was not. */
export async function tell({ bus }: Context['deps'], record: AgentRecord): Promise<boolean> {
  return (await tellAgent(bus, record.name, record)).kind === 'stored'
}

export function refused(error: PassError): RegisterAnswer {
  return { ok: false, error }
}
