import type { PassOverPreferences } from '@passover/schemas'
import { formatValue, type PolicyFault } from '../parse-policy.js'
import { agentRules, type KnownAgents } from './agent-rules.js'
import { levelRules } from './level-rules.js'
import { pairRules } from './pair-rules.js'

/**
 * Settings of a document that cannot hold together (errors, E031) or of which one never takes effect (warnings), both
 * places named. `agents`: then also who is missing or cannot do what is wanted.
 */
export function checkPolicy(document: PassOverPreferences, agents: KnownAgents): PolicyFault[] {
  return [...levelRules(document), ...pairRules(document), ...agentRules(document, agents)]
}

/** What identifies a fault: an old one is not a new one's author's affair. */
export function faultKey({ places, expected }: PolicyFault): string {
  return `${places.map(({ path, value }) => `${path}=${formatValue(value)}`).join(' ')} ${expected}`
}
