import type { PassError, RevokedAgent } from '@passover/schemas'
import { passError } from '../errors.js'

export interface ChainInput {
  originator: string
  subagent: string
  /** Active agents above the originator, root first, from the stored parent. Empty for a root pass. */
  ancestors: readonly string[]
  max_chain_depth: number
}

export type ChainVerdict = { ok: true; depth: number } | { ok: false; error: PassError }

/**
 * Checks that a pass may be added below its ancestors (docs/architecture/protocol.md#parents-and-chains): E003 for a self-pass, ping-pong or longer
 * loop, E002 above max_chain_depth, which counts the passes in the chain including this one.
 */
export function validateChain(input: ChainInput): ChainVerdict {
  // Fast path: most passes are root passes, which need no search.
  if (input.ancestors.length === 0 && input.originator !== input.subagent && input.max_chain_depth >= 1) return { ok: true, depth: 1 }
  const above = [...input.ancestors, input.originator]
  const depth = above.length
  const chain = [...above, input.subagent]
  if (new Set(chain).size < chain.length) {
    const message = `${loopName(above, input.subagent)}: ${chainText(above, input.subagent)}`
    return { ok: false, error: passError('E003', message, { chain, offender: input.subagent }) }
  }
  if (depth > input.max_chain_depth) {
    const message = `Chain too deep (${depth} of at most ${input.max_chain_depth}): ${chainText(above, input.subagent)}`
    const details = { chain, offender: input.subagent, depth, max_chain_depth: input.max_chain_depth }
    return { ok: false, error: passError('E002', message, details) }
  }
  return { ok: true, depth }
}

/** Formats a chain as `alice → audit → [alice]`: the ancestors, root first, then the agent that was refused. */
export function chainText(ancestors: readonly string[], subagent: string): string {
  return [...ancestors, `[${subagent}]`].join(' → ')
}

/** Returns the first agent of a chain, root first, whose credentials were revoked. `revoked`: times of revocation, by agent. */
export function firstRevoked(chain: readonly string[], revoked: ReadonlyMap<string, number>): RevokedAgent | undefined {
  for (const agent of chain) {
    const at = revoked.get(agent)
    if (at !== undefined) return { agent, at }
  }
  return undefined
}

function loopName(above: readonly string[], subagent: string): string {
  if (above.at(-1) === subagent) return `${subagent} may not pass work to itself`
  if (above.at(-2) === subagent) return `Ping-pong, ${subagent} is already waiting for this agent`
  return `Cycle, ${subagent} is already waiting in this chain`
}
