import fc from 'fast-check'

/** The policy's table and its resolution, written a second time by hand; no code of core is in here. */

/** The table of policy fields, written out again: field, levels, narrower direction, default. */
export const TABLE: [field: string, levels: string, narrower: string, standard: unknown][] = [
  ['enabled', 'p', 'false', true],
  ['reason', 'p', 'none', undefined],
  ['can_receive_passes', 's', 'false', true],
  ['auto_return', 'opsg', 'false', false],
  ['auto_review', 'opsg', 'false', false],
  ['auto_apply', 'opsg', 'false', false],
  ['require_user_approval', 'opsg', 'true', true],
  ['hold_before_dispatch', 'opsg', 'true', false],
  ['approval_expires_ms', 'psg', 'smaller', 86_400_000],
  ['timeout_ms', 'opsg', 'smaller', 30_000],
  ['max_timeout_ms', 'g', 'smaller', 86_400_000],
  ['return_deadline_ms', 'g', 'smaller', 86_400_000],
  ['max_chain_depth', 'psg', 'smaller', 3],
  ['max_compute_time_ms', 's', 'smaller', undefined],
  ['max_memory_mb', 's', 'smaller', undefined],
  ['pass_context', 'opsg', 'false', true],
  ['pass_files', 'opsg', 'false', true],
  ['max_context_size_bytes', 'opsg', 'smaller', 5_242_880],
  ['notify_on_return', 'opsg', 'any', 'always'],
  ['can_modify_files', 'ps', 'false', false],
  ['can_run_tools', 'ps', 'false', true],
  ['tools', 'ps', 'subset', undefined],
  ['validate_output', 's', 'true', true],
  ['output_schema', 's', 'none', undefined],
  ['max_attempts', 'sg', 'smaller', 3],
  ['lease_ms', 'sg', 'smaller', 5_000],
  ['max_passes_per_minute', 'ps', 'smaller', undefined],
  ['max_active', 'ps', 'smaller', undefined],
  ['max_passes_per_session', 'pg', 'smaller', 1_000],
  ['max_held', 'pg', 'smaller', 1_000],
  ['max_open', 'pg', 'smaller', 10_000],
  ['budget', 'opg', 'smaller', undefined],
  ['allow_widening', 'p', 'subset', ['timeout_ms', 'auto_return', 'notify_on_return']],
  ['approvers', 'pg', 'subset', undefined],
]
const RIGHTS = ['can_modify_files', 'can_run_tools', 'tools']

const flag = fc.boolean()
const small = fc.integer({ min: 1, max: 5 })
const budget = fc.record({ passes: small, tokens: small, time_ms: small }, { requiredKeys: [] })
const names = fc.subarray(['read', 'edit', 'bash'])
/** Values of each field, few enough that levels often agree and often differ. */
type Values = Record<string, fc.Arbitrary<unknown>>
export const VALUES: Values = {
  reason: fc.constantFrom('because', 'why not'),
  notify_on_return: fc.constantFrom('always', 'only_issues', 'never'),
  tools: names,
  approvers: names,
  output_schema: fc.constantFrom({ type: 'object' }, {}),
  budget,
  allow_widening: fc.subarray([
    'timeout_ms',
    'auto_return',
    'auto_apply',
    'pass_files',
    'max_context_size_bytes',
    'budget',
    'hold_before_dispatch',
  ]),
  lease_ms: fc.integer({ min: 100, max: 103 }),
  approval_expires_ms: fc.constantFrom(1, 1_000, 604_800_000, 700_000_000),
}
function anyValue(field: string, standard: unknown, values: Values): fc.Arbitrary<unknown> {
  return values[field] ?? (typeof standard === 'boolean' ? flag : small)
}

/** What one level of a policy may say. */
export function level(letter: string, values = VALUES): fc.Arbitrary<Record<string, unknown>> {
  const fields = TABLE.filter(([, levels]) => levels.includes(letter)).map(([field, , , standard]) => {
    const name = letter === 'g' && field === 'require_user_approval' ? 'require_confirmation' : field
    return [name, anyValue(field, standard, values)] as const
  })
  return fc.record(Object.fromEntries(fields), { requiredKeys: [] })
}
/** Overrides say little, so that many are accepted. */
export const someOf = (full: Record<string, unknown>) =>
  fc
    .subarray(Object.keys(full), { maxLength: Math.min(3, Object.keys(full).length) })
    .map((kept) => Object.fromEntries(kept.map((key) => [key, full[key]])))

export const policyCases = fc.record({
  pair: fc.option(level('p'), { nil: undefined }),
  subagent: fc.option(level('s'), { nil: undefined }),
  registry: fc.option(level('s'), { nil: undefined }),
  global: fc.option(level('g'), { nil: undefined }),
  override: fc.option(level('o').chain(someOf), { nil: undefined }),
  own: fc.record({ timeout_ms: small, auto_apply_on_success: flag }, { requiredKeys: [] }),
})
export type PolicyCase = typeof policyCases extends fc.Arbitrary<infer T> ? T : never

/** What resolution gives: each value with its source, and what the metadata says of it. */
interface Naive {
  effective: Record<string, unknown>
  sources: Record<string, string>
  policy_name: string
  overridden: boolean
}

/** Resolution by hand, one field at a time; the pair is alice->audit. */
export function naivePolicy(one: PolicyCase): { refused: string[] } | Naive {
  const effective: Record<string, unknown> = {}
  const sources: Record<string, string> = {}
  const refused: string[] = []
  let overridden = false
  const global: Record<string, unknown> = { ...one.global }
  if ('require_confirmation' in global) global.require_user_approval = global.require_confirmation
  const most = Math.min((global.max_timeout_ms as number | undefined) ?? 86_400_000, 86_400_000)
  const widening = (one.pair?.allow_widening as string[] | undefined) ?? ['timeout_ms', 'auto_return', 'notify_on_return']
  for (const [field, levels, narrower, standard] of TABLE) {
    let value: unknown = standard
    let source = 'system'
    const take = (letter: string, name: string, from: Record<string, unknown> | undefined) => {
      if (!levels.includes(letter) || from?.[field] === undefined) return
      value = from[field]
      source = name
    }
    take('g', 'global', global)
    take('s', 'registry', one.registry)
    take('s', 'subagent', one.subagent)
    const below = { value, source }
    take('p', 'pair', one.pair)
    if (RIGHTS.includes(field) && source === 'pair' && (below.source === 'subagent' || below.source === 'registry')) {
      const both = field === 'tools' ? (value as string[]).filter((tool) => (below.value as string[]).includes(tool)) : value && below.value
      if (JSON.stringify(both) !== JSON.stringify(value)) source = below.source
      value = both
    }
    if (field === 'timeout_ms') value = Math.min(value as number, most)
    if (field === 'approval_expires_ms') value = Math.min(value as number, 604_800_000)

    const own = { timeout_ms: one.own.timeout_ms, auto_apply: one.own.auto_apply_on_success } as Record<string, unknown>
    const inline = one.override?.[field]
    const asked = inline ?? own[field]
    if (asked !== undefined) {
      const numbers = Object.entries(field === 'budget' ? (asked as object) : { [field]: asked }) as [string, number][]
      const limits = (field === 'budget' ? (value ?? {}) : { [field]: value }) as Record<string, number>
      const wider =
        (narrower === 'false' && asked === true && value === false) ||
        (narrower === 'true' && asked === false && value === true) ||
        (narrower === 'smaller' && numbers.some(([name, n]) => n > (limits[name] ?? Number.POSITIVE_INFINITY)))
      if ((wider && !widening.includes(field)) || (field === 'timeout_ms' && (asked as number) > most)) refused.push(field)
      const before = JSON.stringify(value)
      value = field === 'budget' ? { ...limits, ...(asked as object) } : asked
      if (JSON.stringify(value) !== before) overridden = true
      source = inline === undefined ? 'request' : 'override'
    }
    if (value !== undefined) effective[field] = value
    sources[field] = source
  }
  if (effective.max_compute_time_ms === undefined) effective.max_compute_time_ms = effective.timeout_ms
  const policy_name = one.pair ? 'pair alice->audit' : one.subagent ? 'subagent audit' : one.global ? 'defaults' : 'system'
  return refused.length > 0 ? { refused } : { effective, sources, policy_name, overridden }
}
