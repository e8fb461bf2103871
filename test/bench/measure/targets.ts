import { splitContext } from '@passover/bus'
import { resolvePolicy, validateChain } from '@passover/core'
import { passOverPreferences } from '@passover/schemas'

/** Targets, and what was measured against each. Milliseconds. */
export interface Target {
  what: string
  target: number
  measured: number
}

const ROUNDS = 2_000

/** `pass` has the p99 of a whole pass alone and how long its record took to be readable. */
export function guideTargets(pass: { total_p99: number; audit_p99: number }): Target[] {
  const policy = passOverPreferences.parse({
    pairs: { 'alice->audit': { enabled: true, timeout_ms: 60_000, auto_return: true } },
    subagents: { audit: { can_receive_passes: true } },
  })
  const files = Array.from({ length: 100 }, (_, n) => ({ path: `src/file-${n}.ts`, content: 'const x = 1\n'.repeat(800) }))
  const context = { session_id: 's', directory: '/d', objective: 'o', files, messages: [] }
  return [
    {
      what: 'chain validation',
      target: 10,
      measured: each(ROUNDS, () => validateChain({ originator: 'b', subagent: 'c', ancestors: ['a'], max_chain_depth: 3 })),
    },
    {
      what: 'config resolution',
      target: 5,
      measured: each(ROUNDS, () => resolvePolicy(policy, { from: 'alice', to: 'audit', override: { timeout_ms: 1_000 } })),
    },
    { what: 'context extraction (100 files, 1 MB)', target: 200, measured: each(20, () => splitContext(context)) },
    { what: 'audit logging (return heard to record readable, p99)', target: 50, measured: pass.audit_p99 },
    { what: 'set-up and return notification, both within the total', target: 100, measured: pass.total_p99 },
    { what: 'total without compute (alone, p99)', target: 500, measured: pass.total_p99 },
  ]
}

function each(rounds: number, work: () => unknown): number {
  for (let i = 0; i < rounds / 10; i += 1) work()
  const started = performance.now()
  for (let i = 0; i < rounds; i += 1) work()
  return (performance.now() - started) / rounds
}

export function printTargets(targets: Target[]): void {
  console.log('\nThe guide’s targets')
  for (const { what, target, measured } of targets)
    console.log(`  ${measured <= target ? '✓' : '✗'} ${what.padEnd(56)} ${measured.toFixed(3).padStart(9)} ms   (< ${target} ms)`)
}
