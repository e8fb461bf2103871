import type { PassOverPreferences } from '@passover/schemas'
import { formatValue, type PolicyFault } from '../parse-policy.js'
import { agentRules, type KnownAgents } from './agent-rules.js'
import { levelRules } from './level-rules.js'
import { pairRules } from './pair-rules.js'

/**
 * Returns conflicting settings of a document (errors, E031) and settings that never take effect (warnings), with both places. With `agents`, also
 * reports agents that do not exist or lack the required role.
 */
export function checkPolicy(document: PassOverPreferences, agents: KnownAgents): PolicyFault[] {
  return [...levelRules(document), ...pairRules(document), ...agentRules(document, agents)]
}

/** Returns a key that identifies a fault, so that faults that existed before a change are not attributed to it. */
export function faultKey({ places, expected }: PolicyFault): string {
  return `${places.map(({ path, value }) => `${path}=${formatValue(value)}`).join(' ')} ${expected}`
}
