import type { AgentRecord, PassOverPreferences } from '@passover/schemas'
import type { PathSegment, PolicyPlace } from '../document-path.js'
import type { PolicyFault } from '../parse-policy.js'
import { closestMatch } from '../suggestions.js'
import { conflict, type Entry, entryPlace, pairEntries, said, subagentEntries } from './conflict.js'

/** Second place of a fault about an agent that does not exist. */
export const REGISTRY = 'the registry of agents'

/** Records of the registry by name. `undefined` if the registry is not known; missing agents are then not reported. */
export type KnownAgents = ReadonlyMap<string, AgentRecord> | undefined

/**
 * Checks the names in a document against the registry. An unknown name is most harmful where it forbids something: the intended pair stays enabled.
 * With open registration originators need no record, so a missing originator is only a warning.
 */
export function agentRules(document: PassOverPreferences, agents: KnownAgents): PolicyFault[] {
  if (!agents) return []
  const pairs = pairEntries(document)
  return [
    ...subagentEntries(document).flatMap((entry) => missing(entry.name, entry.at, { agents, as: 'subagent' })),
    ...pairs.flatMap((pair) => missing(pair.to, pair.at, { agents, as: 'subagent' })),
    ...pairs.flatMap((pair) => missing(pair.from, pair.at, { agents, as: 'originator' })),
    ...pairs.filter(({ value }) => value.enabled !== false).flatMap((pair) => roles(pair, agents)),
    ...[...pairs, { at: ['defaults'], name: 'defaults', value: document.defaults ?? {} }].flatMap((entry) => approvers(entry, agents)),
  ]
}

interface Missing {
  agents: NonNullable<KnownAgents>
  as: 'originator' | 'subagent'
}

/** Command that registers each kind of agent. An agent that is registered only as a subagent may not start passes on its own. */
const REGISTERING: Record<Missing['as'], (name: string) => string> = {
  originator: (name) => `passover agents add ${name} --originates always`,
  subagent: (name) => `start a worker for it, or passover agents add ${name}`,
}

function missing(name: string, at: PathSegment[], { agents, as }: Missing): PolicyFault[] {
  const severity = as === 'subagent' ? 'error' : 'warning'
  if (agents.has(name)) return []
  const close = closestMatch(name, [...agents.keys()])
  const second: PolicyPlace = { level: 'registry', path: REGISTRY, value: undefined }
  const why = `agent ${name} is not registered`
  const suggestion = close ? `did you mean ${close}?` : REGISTERING[as](name)
  return [conflict({ severity, first: entryPlace({ at }), second, why, suggestion })]
}

function roles(pair: ReturnType<typeof pairEntries>[number], agents: NonNullable<KnownAgents>): PolicyFault[] {
  const first = said(pair, 'enabled') ?? entryPlace(pair)
  const to = agents.get(pair.to)
  const from = agents.get(pair.from)
  const suggestion = (name: string, role: string) => `disable the pair, or change the role: passover agents set ${name} ${role}`
  const faults: PolicyFault[] = []
  if (to && !to.roles.subagent) {
    const why = `${pair.to} is not a subagent`
    const second = registered(to, 'roles.subagent', false)
    faults.push(conflict({ severity: 'error', first, second, why, suggestion: suggestion(pair.to, '--subagent') }))
  }
  if (from?.roles.originates === 'never') {
    const why = `${pair.from} may not originate passes`
    const second = registered(from, 'roles.originates', 'never')
    faults.push(conflict({ severity: 'error', first, second, why, suggestion: suggestion(pair.from, '--originates within_a_pass') }))
  }
  return faults
}

function registered({ name }: AgentRecord, field: string, value: unknown): PolicyPlace {
  return { level: 'registry', path: `agent ${name}, ${field}`, value }
}

/** Reports agents among the approvers: an agent's decision never counts. */
function approvers(entry: Entry<object>, agents: NonNullable<KnownAgents>): PolicyFault[] {
  const first = said(entry, 'approvers')
  if (!Array.isArray(first?.value) || first.value.length === 0) return []
  const named = first.value.filter((name): name is string => typeof name === 'string')
  const [agent] = named.filter((name) => agents.has(name))
  if (agent === undefined) return []
  const severity = named.every((name) => agents.has(name)) ? 'error' : 'warning'
  const second: PolicyPlace = { level: 'registry', path: `agent ${agent}`, value: undefined }
  const why = `${agent} is an agent, and only a person can approve`
  return [conflict({ severity, first, second, why, suggestion: 'name people' })]
}
