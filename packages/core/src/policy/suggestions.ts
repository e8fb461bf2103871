import { distance } from 'fastest-levenshtein'
import type { PathSegment } from './document-path.js'

/** Fields of a schema issue that are used to describe it. */
interface Issue {
  code?: string | undefined
  message: string
  expected?: string
  minimum?: number | bigint
  maximum?: number | bigint
  /** False if the limit itself is not allowed. */
  inclusive?: boolean
  origin?: string
  values?: unknown[]
}

const KINDS: Record<string, string> = {
  boolean: 'true or false',
  number: 'a number',
  int: 'a whole number',
  string: 'a text',
  array: 'a list',
  object: 'an object',
  record: 'an object',
}
const UNITS: Record<string, string> = { string: ' characters', array: ' entries', set: ' entries', object: ' entries' }

/** Describes the allowed values in words. */
export function describeExpected(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return KINDS[issue.expected ?? ''] ?? issue.message
    case 'too_big':
      return `at most ${issue.maximum}${UNITS[issue.origin ?? ''] ?? ''}`
    case 'too_small':
      return `${issue.inclusive === false ? 'more than' : 'at least'} ${issue.minimum}${UNITS[issue.origin ?? ''] ?? ''}`
    case 'invalid_value':
      return `one of ${(issue.values ?? []).map((value) => JSON.stringify(value)).join(', ')}`
    case 'invalid_key':
      return 'a name: 1 to 64 characters of A-Z a-z 0-9 _ -, starting with a letter or digit, not "passover"'
    default:
      return issue.message
  }
}

/** Maximum edit distance of a suggestion, as a share of the word's letters. */
const MAX_DISTANCE_SHARE = 0.4

/** Returns the known word that was probably meant. */
export function closestMatch(given: unknown, known: readonly unknown[]): string | undefined {
  if (typeof given !== 'string') return undefined
  const words = known
    .filter((word) => typeof word === 'string')
    .map((word) => ({ word, far: distance(given.toLowerCase(), word.toLowerCase()) }))
  const [best] = words.sort((a, b) => a.far - b.far)
  return best && best.far <= Math.max(2, Math.floor(best.word.length * MAX_DISTANCE_SHARE)) ? best.word : undefined
}

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, min: 60_000, h: 3_600_000, d: 86_400_000 }

/** Suggests a correction for a value of the wrong type whose meaning is clear: `"true"`, `"30"`, `"30s"` for milliseconds. */
export function suggestRewrite(found: unknown, name: PathSegment | undefined): string | undefined {
  if (typeof found !== 'string') return undefined
  const text = found.trim()
  if (/^(true|false|\d+)$/.test(text)) return `${text} without quotes`
  const [, number, unit = ''] = /^(\d+(?:\.\d+)?)\s*([a-z]+)$/.exec(text) ?? []
  const factor = UNIT_MS[unit]
  return number && factor && String(name).endsWith('_ms') ? `${Number(number) * factor} (milliseconds)` : undefined
}
