import { isBody } from '../codec/output-codec.js'
import type { Narrower } from './fields.js'

/** Returns true if `asked` allows anything that `base` does not. An absent number or list means no limit. */
export function isWider(narrower: Narrower, asked: unknown, base: unknown): boolean {
  if (narrower === 'false') return asked === true && base !== true
  if (narrower === 'true') return asked === false && base !== false
  if (narrower === 'subset') return isList(base) && !(isList(asked) && asked.every((entry) => base.includes(entry)))
  if (narrower !== 'smaller') return false
  if (typeof asked === 'number') return typeof base === 'number' && asked > base
  return isBody(asked) && isBody(base) && Object.entries(asked).some(([field, value]) => isWider('smaller', value, base[field]))
}

/** Returns the value that allows only what both allow. */
export function narrowest(narrower: Narrower, a: unknown, b: unknown): unknown {
  if (narrower === 'subset' && isList(a) && isList(b)) return a.filter((entry) => b.includes(entry))
  return isWider(narrower, a, b) ? b : a
}

/** Returns a budget in which each number is the smallest of all; an absent number means no limit. */
export function smallerBudget<B extends object>(...budgets: (B | undefined)[]): B | undefined {
  // Fast path: most passes have no budget.
  if (budgets.every((budget) => budget === undefined)) return undefined
  const all = budgets
    .flatMap((budget) => Object.entries(budget ?? {}))
    .filter((entry): entry is [string, number] => typeof entry[1] === 'number')
  if (all.length === 0) return undefined
  const least: Record<string, number> = {}
  for (const [field, value] of all) least[field] = Math.min(value, least[field] ?? value)
  return least as B
}

function isList(value: unknown): value is unknown[] {
  return Array.isArray(value)
}
