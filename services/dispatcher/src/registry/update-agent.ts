import type { AgentKept } from '@passover/bus'
import { passError } from '@passover/core'
import type { AgentRecord, PassError, RegisterAnswer } from '@passover/schemas'
import type { BaseContext } from '../runtime/base-context.js'
import type { Registry } from './registry.js'

/** Others change it at the same time: each try stores an event. */
export const MAX_TRIES = 5

/** What a change of the registry needs. */
export interface RegistryContext extends Pick<BaseContext, 'deps' | 'options'> {
  registry: Registry
}

/** A record's event is stored before the record, so that the stream alone tells who could do what. False: it was not. */
export async function publishRecordEvent({ registry }: RegistryContext, record: AgentRecord): Promise<boolean> {
  return (await registry.writes.tell(record.name, record)).kind === 'stored'
}

/** The record, over the revision that it was made from. */
export async function storeRecord({ deps, registry }: RegistryContext, change: { record: AgentRecord; over: number }): Promise<AgentKept> {
  const kept = await registry.writes.keep(change)
  if (kept === 'untold')
    deps.log.warn({ agent: change.record.name }, 'the stream may tell of another record than stands: change the agent once more')
  return kept
}

export function refusedAnswer(error: PassError): RegisterAnswer {
  return { ok: false, error }
}

export function notStoredAnswer(): RegisterAnswer {
  return refusedAnswer(passError('E014', 'the registration could not be stored', { retry_after_ms: 1_000 }))
}
