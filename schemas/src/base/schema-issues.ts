import { z } from 'zod'

/** Fields of a schema issue that are used to describe it. */
interface Issue {
  readonly code?: string | undefined
  readonly path: readonly PropertyKey[]
  readonly message: string
  /** For a union: the issues of each branch. */
  readonly errors?: readonly (readonly Issue[])[] | undefined
  /** For a record: the issues of one of its keys. */
  readonly issues?: readonly Issue[] | undefined
  readonly expected?: string | undefined
  readonly values?: readonly unknown[] | undefined
  readonly keys?: readonly string[] | undefined
  readonly origin?: string | undefined
  readonly minimum?: number | bigint | undefined
  readonly maximum?: number | bigint | undefined
  readonly inclusive?: boolean | undefined
  readonly format?: string | undefined
  readonly options?: readonly unknown[] | undefined
}

const KEYS_SHOWN = 5
const PATH_SHOWN = 12

/**
 * Describes the issues of a schema, one text each: the field and what it must be. A union only reports that no branch matches. For it, describes the
 * branch of the value's kind that has some of its fields and the fewest issues.
 */
export function issueTexts(issues: readonly Issue[], limit: number, whole = 'output'): string[] {
  return fieldIssues(issues, limit).map(({ field, why }) => `${field || whole}: ${why}`)
}

/** Returns the same with the field as a separate value; '' means the value itself. */
export function fieldIssues(issues: readonly Issue[], limit: number): { field: string; why: string }[] {
  return leaves(issues, [])
    .slice(0, limit)
    .map(({ path, message }) => ({ field: pathOf(path), why: message }))
}

/** Returns the first issue of a value. */
export function firstIssue({ issues }: { issues: readonly Issue[] }): { field: string; why: string } {
  return fieldIssues(issues, 1)[0] ?? { field: '', why: 'is not valid' }
}

const SHOWN = 3

/** Returns the message of an error. The message of a schema's error is JSON of the library; it is replaced by its first issues in words. */
export function errorText(error: unknown, whole = 'the value'): string {
  if (error instanceof z.ZodError) return issueTexts(error.issues, SHOWN, whole).join('; ')
  return error instanceof Error ? error.message : String(error)
}

function pathOf(path: readonly PropertyKey[]): string {
  const shown = path.slice(0, PATH_SHOWN).map(String).join('.')
  return path.length > PATH_SHOWN ? `${shown}…` : shown
}

interface Leaf {
  path: PropertyKey[]
  message: string
}

function leaves(issues: readonly Issue[], above: readonly PropertyKey[]): Leaf[] {
  return issues.flatMap((issue) => {
    const path = [...above, ...issue.path]
    const branches = issue.code === 'invalid_union' ? (issue.errors ?? []) : []
    const [kindred] = branches
      .filter((branch) => !branch.some((one) => one.path.length === 0 && one.code === 'invalid_type'))
      .sort((a, b) => Number(knowsNothing(a)) - Number(knowsNothing(b)) || a.length - b.length)
    if (kindred) return leaves(kindred, path)
    const kinds = branches.flatMap((branch) => branch.flatMap(({ expected }) => (expected === undefined ? [] : [kindOf(expected)])))
    return [{ path, message: kinds.length > 0 ? `must be ${[...new Set(kinds)].join(' or ')}${gotIn(branches[0]?.[0])}` : plain(issue) }]
  })
}

/** Returns true if a branch of a union reports only missing fields: the value was not meant for that branch. */
function knowsNothing(branch: readonly Issue[]): boolean {
  return branch.every(isMissing)
}

/** Describes an issue in words that do not depend on the schema library. */
function plain(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return isMissing(issue) ? `is missing: ${kindOf(issue.expected)} is needed` : `must be ${kindOf(issue.expected)}${gotIn(issue)}`
    case 'invalid_value':
      return `must be ${oneOf(issue.values ?? [])}`
    case 'invalid_union':
      return issue.options ? `must be ${oneOf(issue.options)}` : 'does not match any allowed form'
    case 'unrecognized_keys':
      return unknownKeys(issue.keys ?? [])
    case 'too_small':
      return bound(issue, issue.minimum, 'least')
    case 'too_big':
      return issue.message.startsWith('Too big') || issue.message.startsWith('Invalid')
        ? bound(issue, issue.maximum, 'most')
        : issue.message
    case 'invalid_format':
      return issue.message.startsWith('Invalid') ? (FORMATS[issue.format ?? ''] ?? 'has the wrong form') : issue.message
    case 'not_multiple_of':
      return 'must be a whole number'
    case 'invalid_key':
      return `has a key that is not allowed: ${issue.issues?.[0] ? plain(issue.issues[0]) : 'its form is wrong'}`
    default:
      return issue.message === 'Invalid input' ? 'is not valid' : issue.message
  }
}

const FORMATS: Record<string, string> = { url: 'is not a URL', email: 'is not an email address', datetime: 'is not a date with a time' }

const KINDS: Record<string, string> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  record: 'an object',
  array: 'a list',
  null: 'null',
  undefined: 'missing',
  function: 'a function',
}

/** Returns the name of a schema's or value's kind with its article. */
function kindOf(kind: string | undefined): string {
  if (kind === undefined) return 'of another kind'
  if (kind === 'NaN' || kind === 'Infinity') return kind
  return KINDS[kind] ?? withArticle(kind)
}

/** Adds the article: `a Map`, `an Error`, `a Uint8Array`. */
export function withArticle(kind: string): string {
  return `${/^(?!uint)[aeiou]/i.test(kind) ? 'an' : 'a'} ${kind}`
}

/** Returns the kind of the value. The library names it only in its message. */
function gotIn(issue: Issue | undefined): string {
  const [, got] = /received (\S+)$/.exec(issue?.message ?? '') ?? []
  // If an integer was expected and another number given, the kind would not explain the issue.
  return got === undefined || (got === 'number' && issue?.expected === 'int') ? '' : `, not ${kindOf(got)}`
}

function isMissing({ message }: Issue): boolean {
  return /received undefined$/.test(message)
}

function oneOf(values: readonly unknown[]): string {
  const shown = values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value)))
  return shown.length === 1 ? `${shown[0]}` : `one of ${shown.join(', ')}`
}

function unknownKeys(keys: readonly string[]): string {
  const more = keys.length - KEYS_SHOWN
  const shown = keys.slice(0, KEYS_SHOWN).join(', ')
  return `has ${keys.length === 1 ? 'an unknown field' : 'unknown fields'}: ${shown}${more > 0 ? ` and ${more} more` : ''}`
}

const UNITS: Record<string, string> = { string: 'characters', array: 'entries', set: 'entries', map: 'entries', object: 'keys' }

function bound({ origin = '', inclusive = true }: Issue, limit: number | bigint | undefined, which: 'least' | 'most'): string {
  const unit = UNITS[origin]
  if (unit && which === 'least' && limit === 1) return 'must not be empty'
  if (unit) return `must have at ${which} ${limit} ${unit}`
  if (inclusive) return `must be at ${which} ${limit}`
  return `must be ${which === 'least' ? 'more' : 'less'} than ${limit}`
}
