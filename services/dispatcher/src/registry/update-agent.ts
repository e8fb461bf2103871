import type { AgentKept } from '@passover/bus'
import { passError } from '@passover/core'
import type { AgentRecord, PassError, RegisterAnswer } from '@passover/schemas'
import type { BaseContext } from '../runtime/base-context.js'
import type { Registry } from './registry.js'

/** Maximum number of tries while others change the same record. Each try stores an event. */
export const MAX_TRIES = 5

/** Dependencies of a change to the registry. */
export interface RegistryContext extends Pick<BaseContext, 'deps' | 'options'> {
  registry: Registry
}

/**
 * Stores the event of a record. It is stored before the record, so that the stream alone shows the rights of each agent at any time. Returns false if
 * it was not stored.
 */
export async function publishRecordEvent({ registry }: RegistryContext, record: AgentRecord): Promise<boolean> {
  return (await registry.writes.tell(record.name, record)).kind === 'stored'
}

/** Stores the record over the revision from which it was derived. */
export async function storeRecord({ deps, registry }: RegistryContext, change: { record: AgentRecord; over: number }): Promise<AgentKept> {
  const kept = await registry.writes.keep(change)
  if (kept === 'untold')
    deps.log.warn({ agent: change.record.name }, 'the event in the stream may differ from the stored record; change the agent again')
  return kept
}

export function refusedAnswer(error: PassError): RegisterAnswer {
  return { ok: false, error }
}

export function notStoredAnswer(): RegisterAnswer {
  return refusedAnswer(passError('E014', 'the registration could not be stored', { retry_after_ms: 1_000 }))
}
