import { type Bus, type PolicyDraft, PolicyStore, verifiedAgents } from '@passover/bus'
import { checkPolicy, faultKey, type KnownAgents, type PolicyFault } from '@passover/core'
import { type PassOverPreferences, type PolicyVersion, policyDigest } from '@passover/schemas'
import { ago, dateTime, nameMarks } from '@passover/sdk/internal/format'
import { askNameVerification, type NameVerification } from '../audit/name-verification.js'
import { Failure } from '../errors.js'
import { invalidPolicyError, isMissing } from './issues.js'
import { schemaFaults } from './output-schema.js'

/** The policy in force. Version 0 means the system's defaults. */
export interface ActivePolicy {
  version: number
  document: PassOverPreferences
  value?: PolicyVersion | undefined
}

/** Dependencies of all policy operations. */
export interface PolicySession {
  bus: Bus
  store: PolicyStore
  /** Registered agents. `undefined` if there are none, so that missing agents cannot be detected. */
  agents: KnownAgents
}

/** Opens a session on a person's connection. */
export async function openPolicySession(bus: Bus): Promise<PolicySession> {
  return { bus, store: await PolicyStore.open(bus), agents: await readRegistry(bus) }
}

async function readRegistry(bus: Bus): Promise<KnownAgents> {
  const agents = await verifiedAgents(bus)
  return agents.size > 0 ? agents : undefined
}

/** Returns the policy in force. If a process died while it published a policy, completes that publication first. */
export async function activePolicy({ store }: Pick<PolicySession, 'store'>): Promise<ActivePolicy> {
  const value = await store.rollForward()
  return value ? { version: value.version, document: value.document, value } : { version: 0, document: {} }
}

/** Returns an earlier version. Version 0 is the system's defaults. Throws Failure E041 if the version does not exist. */
export async function versionOf({ store }: Pick<PolicySession, 'store'>, version: number): Promise<ActivePolicy> {
  if (version === 0) return { version, document: {} }
  const value = await store.version(version)
  if (!value) throw new Failure('E041', `there is no policy version ${version}`, { hint: 'passover policy history lists the versions' })
  return { version, document: value.document, value }
}

/** Returns true if both policies have the same content. */
export function sameDocument(a: PassOverPreferences, b: PassOverPreferences): boolean {
  return policyDigest(a) === policyDigest(b)
}

export interface ValidateOptions {
  /** Name of the document in a failure. */
  what: string
  agents: KnownAgents
  /** The document before the change. Faults that it already had are reported as warnings. */
  before?: PassOverPreferences | undefined
  /** True to report agents that are not registered as warnings. */
  allowMissing: boolean
}

/** Validates a policy before publishing. Throws E031 or E030 on faults; returns warnings. */
export async function validateForPublish(
  document: PassOverPreferences,
  { what, agents, before, allowMissing }: ValidateOptions,
): Promise<PolicyFault[]> {
  const all = async (one: PassOverPreferences) => [...checkPolicy(one, agents), ...(await schemaFaults(one))]
  const current = await all(document)
  const old = new Set(before && current.length > 0 ? (await all(before)).map(faultKey) : [])
  const faults = downgradeMissingAgents(current, allowMissing).map(
    (fault): PolicyFault => (old.has(faultKey(fault)) ? { ...fault, severity: 'warning' } : fault),
  )
  if (faults.some(({ severity }) => severity === 'error')) throw invalidPolicyError(what, faults)
  return faults
}

/** Turns faults about agents that are not registered into warnings if `allowMissing` is set. */
export function downgradeMissingAgents<F extends PolicyFault>(faults: F[], allowMissing: boolean): F[] {
  if (!allowMissing) return faults
  return faults.map((fault) => (isMissing(fault) ? { ...fault, severity: 'warning' } : fault))
}

/** Publishes a policy. Throws Failure E031 (exit 1) if the policy has changed since `base`, and E013 if the person may not publish. */
export async function publish({ store, bus }: PolicySession, draft: PolicyDraft, keptIn?: string): Promise<PolicyVersion> {
  const outcome = await store.publish(draft)
  if (outcome.kind === 'published') return outcome.value
  if (outcome.kind === 'lost')
    throw versionConflict(outcome.value, { now: bus.now(), base: draft.base, keptIn, names: await askNameVerification(bus) })
  throw new Failure('E013', `the policy was not published: ${outcome.description}`, { hint: 'nothing was changed' })
}

/** Returns the failure E031 for a change that is based on an older version. It names the person who published the newer one. */
export function versionConflict(
  winner: PolicyVersion | undefined,
  { now, base, keptIn, names }: { now: number; base: number; keptIn?: string | undefined; names?: NameVerification | undefined },
): Failure {
  const who = winner
    ? `${winner.by}${nameMarks({ ...names })} published version ${winner.version} ${ago(winner.time, now)} (${dateTime(winner.time)})${winner.reason ? `, "${winner.reason}"` : ''}`
    : 'the policy was reset'
  const kept = keptIn ? ` Your text is still in ${keptIn}.` : ''
  const hint = `passover policy diff ${base}${winner ? ` ${winner.version}` : ''} shows what changed; then try again`
  return new Failure('E031', `${who}; your change is based on version ${base} and was not published.${kept}`, { hint, exit: 1 })
}
