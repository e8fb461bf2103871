import type { PassOverPreferences } from '@passover/schemas'
import { SYSTEM_DEFAULTS } from '../fields.js'
import type { PolicyFault } from '../parse-policy.js'
import { conflict, defaultsOf, entryPlace, firstSaid, type PairEntry, pairEntries, said, towards } from './conflict.js'
import { nobodyMayDecide } from './level-rules.js'

/** Reports conflicts within a pair, and between a pair and its subagent or the defaults. */
export function pairRules(document: PassOverPreferences): PolicyFault[] {
  return pairEntries(document)
    .filter(({ value }) => value.enabled !== false)
    .flatMap((pair) => [
      ...toItself(pair),
      ...mayNotReceive(document, pair),
      ...toolsInCommon(document, pair),
      ...leaseOfSubagent(document, pair),
      ...approversOf(document, pair),
      ...onlyParties(pair),
      ...twoBounds(pair),
    ])
}

function toItself(pair: PairEntry): PolicyFault[] {
  if (pair.from !== pair.to) return []
  const why = 'an agent cannot pass work to itself: every such pass is a loop (E003)'
  return [conflict({ severity: 'error', first: entryPlace(pair), why, suggestion: 'remove the pair' })]
}

function mayNotReceive(document: PassOverPreferences, pair: PairEntry): PolicyFault[] {
  const second = said(towards(document, pair), 'can_receive_passes')
  if (second?.value !== false) return []
  const first = said(pair, 'enabled') ?? entryPlace(pair)
  const why = `${pair.name} is enabled, but ${pair.to} may not receive passes`
  return [conflict({ severity: 'error', first, second, why, suggestion: 'disable the pair, or set can_receive_passes to true' })]
}

/** Reports tool lists without a common tool: both lists apply, so no tool may be run. */
function toolsInCommon(document: PassOverPreferences, pair: PairEntry): PolicyFault[] {
  const first = said(pair, 'tools')
  const second = said(towards(document, pair), 'tools')
  if (!Array.isArray(first?.value) || !Array.isArray(second?.value)) return []
  const [mine, theirs]: unknown[][] = [first.value, second.value]
  if (mine?.length === 0 || theirs?.length === 0 || mine?.some((tool) => theirs?.includes(tool))) return []
  const why = 'both apply and have no tool in common, so no tool may be run'
  return [conflict({ severity: 'error', first, second, why, suggestion: 'name a tool in both, or set can_run_tools to false' })]
}

/** Reports a pair's timeout that is shorter than the lease of its subagent or the defaults. */
function leaseOfSubagent(document: PassOverPreferences, pair: PairEntry): PolicyFault[] {
  const second = said(pair, 'timeout_ms')
  const subagent = towards(document, pair)
  const defaults = defaultsOf(document)
  const first = said(subagent, 'lease_ms') ?? said(defaults, 'lease_ms')
  const attempts = firstSaid('max_attempts', [subagent, defaults], SYSTEM_DEFAULTS.max_attempts)
  if (!first || !second || attempts.value === 1 || Number(first.value) < Number(second.value)) return []
  const why = 'a lost worker is detected only at the deadline, too late for another attempt'
  return [conflict({ severity: 'error', first: second, second: first, why, suggestion: 'set a shorter lease, or max_attempts to 1' })]
}

function approversOf(document: PassOverPreferences, pair: PairEntry): PolicyFault[] {
  const levels = [pair, towards(document, pair), defaultsOf(document)]
  return nobodyMayDecide(pair, levels)
}

/** Reports approvers who all take part in the pass and therefore cannot decide about it. */
function onlyParties(pair: PairEntry): PolicyFault[] {
  const first = said(pair, 'approvers')
  if (!Array.isArray(first?.value) || first.value.length === 0) return []
  if (!first.value.every((name) => name === pair.from || name === pair.to)) return []
  const why = 'an agent that takes part in a pass cannot approve it, so nobody can'
  return [conflict({ severity: 'error', first, second: entryPlace(pair), why, suggestion: 'name a person who does not take part' })]
}

/** Reports max_open together with max_active: a pair's own max_active replaces max_open. */
function twoBounds(pair: PairEntry): PolicyFault[] {
  const first = said(pair, 'max_open')
  const second = said(pair, 'max_active')
  if (!first || !second) return []
  const why = 'max_active of a pair replaces max_open, so max_open has no effect'
  return [conflict({ severity: 'warning', first, second, why, suggestion: 'remove one of them' })]
}
