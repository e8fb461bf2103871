import { type Bus, type PolicyDraft, PolicyStore, verifiedAgents } from '@passover/bus'
import { checkPolicy, faultKey, type KnownAgents, type PolicyFault } from '@passover/core'
import { type PassOverPreferences, type PolicyVersion, policyDigest } from '@passover/schemas'
import { ago, dateTime, nameMarks } from '@passover/sdk/internal/format'
import { askNameVerification, type NameVerification } from '../audit/name-verification.js'
import { Failure } from '../errors.js'
import { invalidPolicyError, isMissing } from './issues.js'
import { schemaFaults } from './output-schema.js'

/** What is in force: version 0 is the system's defaults. */
export interface ActivePolicy {
  version: number
  document: PassOverPreferences
  value?: PolicyVersion | undefined
}

/** What everything that is done with the policy needs. */
export interface PolicySession {
  bus: Bus
  store: PolicyStore
  /** Undefined: none is registered, so that who is missing is not known. */
  agents: KnownAgents
}

/** Upon a connection of a person's. */
export async function openPolicySession(bus: Bus): Promise<PolicySession> {
  return { bus, store: await PolicyStore.open(bus), agents: await readRegistry(bus) }
}

async function readRegistry(bus: Bus): Promise<KnownAgents> {
  const agents = await verifiedAgents(bus)
  return agents.size > 0 ? agents : undefined
}

/** What is in force, after putting there what somebody published and died. */
export async function activePolicy({ store }: Pick<PolicySession, 'store'>): Promise<ActivePolicy> {
  const value = await store.rollForward()
  return value ? { version: value.version, document: value.document, value } : { version: 0, document: {} }
}

/** An earlier version; 0 is the system's defaults. Failure E041 when there is none. */
export async function versionOf({ store }: Pick<PolicySession, 'store'>, version: number): Promise<ActivePolicy> {
  if (version === 0) return { version, document: {} }
  const value = await store.version(version)
  if (!value) throw new Failure('E041', `there is no policy version ${version}`, { hint: 'passover policy history lists them' })
  return { version, document: value.document, value }
}

export function sameDocument(a: PassOverPreferences, b: PassOverPreferences): boolean {
  return policyDigest(a) === policyDigest(b)
}

export interface ValidateOptions {
  /** What the document is called in a failure. */
  what: string
  agents: KnownAgents
  /** The document that is changed: what was wrong before is nobody's fault now. */
  before?: PassOverPreferences | undefined
  /** Agents that are not registered (yet) are only warned of. */
  allowMissing: boolean
}

/** Refuses what cannot hold together before anything is published (E031); gives what is only warned of. */
export async function validateForPublish(
  document: PassOverPreferences,
  { what, agents, before, allowMissing }: ValidateOptions,
): Promise<PolicyFault[]> {
  const all = async (one: PassOverPreferences) => [...checkPolicy(one, agents), ...(await schemaFaults(one))]
  const found = await all(document)
  const old = new Set(before && found.length > 0 ? (await all(before)).map(faultKey) : [])
  const faults = downgradeMissingAgents(found, allowMissing).map(
    (fault): PolicyFault => (old.has(faultKey(fault)) ? { ...fault, severity: 'warning' } : fault),
  )
  if (faults.some(({ severity }) => severity === 'error')) throw invalidPolicyError(what, faults)
  return faults
}

/** With `allowMissing` a name that nobody has is a warning. */
export function downgradeMissingAgents<F extends PolicyFault>(faults: F[], allowMissing: boolean): F[] {
  if (!allowMissing) return faults
  return faults.map((fault) => (isMissing(fault) ? { ...fault, severity: 'warning' } : fault))
}

/** Publishes. Failure with exit 1 when somebody was faster, E013 where this person may not. */
export async function publish({ store, bus }: PolicySession, draft: PolicyDraft, keptIn?: string): Promise<PolicyVersion> {
  const outcome = await store.publish(draft)
  if (outcome.kind === 'published') return outcome.value
  if (outcome.kind === 'lost')
    throw versionConflict(outcome.value, { now: bus.now(), base: draft.base, keptIn, names: await askNameVerification(bus) })
  throw new Failure('E013', `the policy was not published: ${outcome.description}`, { hint: 'nothing was changed' })
}

export function versionConflict(
  winner: PolicyVersion | undefined,
  { now, base, keptIn, names }: { now: number; base: number; keptIn?: string | undefined; names?: NameVerification | undefined },
): Failure {
  const who = winner
    ? `${winner.by}${nameMarks({ ...names })} was faster: version ${winner.version} came ${ago(winner.time, now)} (${dateTime(winner.time)})${winner.reason ? `, "${winner.reason}"` : ''}`
    : 'the policy was reset'
  const kept = keptIn ? ` What you wrote is still in ${keptIn}.` : ''
  const hint = `passover policy diff ${base}${winner ? ` ${winner.version}` : ''} shows what changed; then try again`
  return new Failure('E031', `${who}; yours, made upon version ${base}, was not published.${kept}`, { hint, exit: 1 })
}
