import { type Difference, TopologyError } from '../types/errors.js'

/** A stream's or consumer's configuration in the server's format. */
export type Config = Record<string, unknown>

/** Returns true for a field that may differ. */
export type Loose = (field: string, found: unknown) => boolean

/** Throws TopologyError if a configuration differs from the expected one. */
export function compare(entity: string, configs: { found: Config; wanted: Config }, loose: Loose): void {
  const differences = differencesOf(configs, loose)
  if (differences.length === 0) return
  const hint = `Nothing was changed. Use another prefix or stream name, or have its owner set ${differences.map(({ field }) => field).join(', ')} as expected.`
  throw new TopologyError(entity, differences, hint)
}

/** Compares only the expected fields: the server adds fields and metadata of its own. */
export function differencesOf({ found, wanted }: { found: Config; wanted: Config }, loose: Loose): Difference[] {
  const differences: Difference[] = []
  for (const [field, expected] of Object.entries(wanted)) {
    const actual = field === 'filter_subjects' && found.filter_subject ? [found.filter_subject] : found[field]
    if (same(actual, expected) || loose(field, actual)) continue
    differences.push({ field, found: actual, expected })
  }
  return differences
}

/** Compares two values. The server omits fields with their zero value. */
export function same(found: unknown, expected: unknown): boolean {
  if (Array.isArray(expected)) return sameList(found, expected)
  if (found === undefined) return expected === false || expected === 0 || expected === '' || expected === -1
  if (typeof expected === 'object' && expected !== null) {
    return Object.entries(expected).every(([field, value]) => same((found as Config)[field], value))
  }
  return found === expected
}

export function sameList(found: unknown, expected: unknown[]): boolean {
  if (!Array.isArray(found) || found.length !== expected.length) return false
  const sorted = [...found].sort()
  return [...expected].sort().every((value, index) => value === sorted[index])
}
