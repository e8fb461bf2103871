import type { PassOverPreferences, Rights } from '@passover/schemas'
import fc from 'fast-check'
import { it } from 'vitest'
import { resolvePolicy } from '../policy/resolve-policy.js'
import { rightsOf } from './rights.js'

const TOOLS = ['ls', 'rm', 'git', 'curl']
const level = fc.record({ can_modify_files: fc.boolean(), can_run_tools: fc.boolean(), tools: fc.subarray(TOOLS) }, { requiredKeys: [] })
const CHAIN = ['alice', 'audit', 'scout', 'fixer'] as const
const policies = fc.record({
  pairs: fc.record({ 'alice->audit': level, 'audit->scout': level, 'scout->fixer': level }, { requiredKeys: [] }),
  subagents: fc.record({ audit: level, scout: level, fixer: level }, { requiredKeys: [] }),
})
const constraints = fc.array(fc.subarray(['read_only', 'no_tools', 'no_external_calls', 'be_kind']), { minLength: 3, maxLength: 3 })

/** The rights of each pass of the chain, each within the one before. */
function chain(policy: PassOverPreferences, asked: string[][]): Rights[] {
  const rights: Rights[] = []
  for (const [at, constraint] of asked.entries()) {
    const resolved = resolvePolicy(policy, { from: CHAIN[at] ?? '', to: CHAIN[at + 1] ?? '' })
    if (!resolved.ok) throw new Error(resolved.error.message)
    rights.push(rightsOf(resolved.value.effective, constraint, rights.at(-1)))
  }
  return rights
}

const isWithin = (child: Rights, parent: Rights): boolean =>
  (parent.can_modify_files || !child.can_modify_files) &&
  (parent.can_run_tools || !child.can_run_tools) &&
  (parent.tools?.length === undefined || (child.tools?.every((tool) => parent.tools?.includes(tool)) ?? false)) &&
  parent.constraints.every((constraint) => child.constraints.includes(constraint))

const isBound = (rights: Rights, by: { can_modify_files?: boolean; can_run_tools?: boolean; tools?: string[] } = {}): boolean =>
  (by.can_modify_files !== false || !rights.can_modify_files) &&
  (by.can_run_tools !== false || !rights.can_run_tools) &&
  (by.tools === undefined || (rights.tools?.every((tool) => by.tools?.includes(tool)) ?? false))

it('a child, and its child, may never do more than those above, whatever the policies say', () => {
  fc.assert(
    fc.property(policies, constraints, (policy, asked) => {
      const [first, second, third] = chain(policy as PassOverPreferences, asked) as [Rights, Rights, Rights]
      return isWithin(second, first) && isWithin(third, second) && isWithin(third, first)
    }),
    { numRuns: 1_000 },
  )
})

it('each level of the policy binds too: what pair or subagent forbids, no pass may', () => {
  fc.assert(
    fc.property(policies, constraints, (policy, asked) => {
      return chain(policy as PassOverPreferences, asked).every((rights, at) => {
        const to = CHAIN[at + 1] as 'audit'
        const own = asked[at] ?? []
        const asks = {
          ...(own.includes('read_only') && { can_modify_files: false }),
          ...(own.includes('no_tools') && { can_run_tools: false }),
        }
        const said = [policy.pairs[`${CHAIN[at]}->${to}` as 'alice->audit'], policy.subagents[to], asks]
        return said.every((one) => isBound(rights, one))
      })
    }),
    { numRuns: 1_000 },
  )
})
