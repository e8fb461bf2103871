import type { Diagnostic } from './checker.js'

export type Confidence = 'high' | 'medium' | 'low'

/** One replacement in a file's text. */
export interface Fix {
  path: string
  start: number
  end: number
  text: string
  why: string
  confidence: Confidence
}

/** What can be done about one diagnostic; undefined: nothing that a rule knows. */
type Rule = (diagnostic: Diagnostic, at: Place) => Omit<Fix, 'path'> | undefined

interface Place {
  source: string
  /** Where the diagnostic points, as an index. */
  index: number
}

/** "Property 'quantiy' does not exist … Did you mean 'quantity'?" */
const spelling: Rule = ({ message, code }, { source, index }) => {
  const wanted = /Did you mean '([^']+)'\?/.exec(message)?.[1]
  const found = /^[\w$]+/.exec(source.slice(index))?.[0]
  if (!wanted || !found) return undefined
  return {
    start: index,
    end: index + found.length,
    text: wanted,
    why: `${code}: there is no \`${found}\`; \`${wanted}\` is what is declared`,
    confidence: 'high',
  }
}

/** "Type 'string' is not assignable to type 'number'" on a declaration: the annotation gives way to what is assigned. */
const annotation: Rule = ({ message, code }, { source, index }) => {
  const types = /^Type '(string|number|boolean)' is not assignable to type '(string|number|boolean)'\.$/.exec(message)
  const declared = /^([\w$]+\s*:\s*)(string|number|boolean)\b/.exec(source.slice(index))
  if (!types?.[1] || !declared?.[1] || !declared[2] || declared[2] !== types[2]) return undefined
  const start = index + declared[1].length
  return { start, end: start + declared[2].length, text: types[1], why: `${code}: what is assigned is a ${types[1]}`, confidence: 'medium' }
}

/** "'basket.customer' is possibly 'undefined'": an optional chain silences the checker; what then is printed is for a person to judge. */
const optional: Rule = ({ message, code }, { source, index }) => {
  const name = /^'([\w$.]+)' is possibly 'undefined'\.$/.exec(message)?.[1]
  if (!name || !source.startsWith(`${name}.`, index)) return undefined
  const start = index + name.length
  return {
    start,
    end: start + 1,
    text: '?.',
    why: `${code}: \`${name}\` may be undefined; this only silences the checker`,
    confidence: 'low',
  }
}

const RULES: Record<string, Rule> = { TS2551: spelling, TS2552: spelling, TS2724: spelling, TS2322: annotation, TS18048: optional }

/** What the rules propose for diagnostics over files (path → text). Pure. */
export function proposeFixes(files: ReadonlyMap<string, string>, diagnostics: Diagnostic[]): Fix[] {
  return diagnostics.flatMap((diagnostic) => {
    const source = files.get(diagnostic.path)
    const rule = RULES[diagnostic.code]
    if (source === undefined || !rule) return []
    const fix = rule(diagnostic, { source, index: indexAt(source, diagnostic) })
    return fix ? [{ path: diagnostic.path, ...fix }] : []
  })
}

function indexAt(source: string, { line, column }: Diagnostic): number {
  let index = 0
  for (let row = 1; row < line; row += 1) {
    const end = source.indexOf('\n', index)
    if (end === -1) return source.length
    index = end + 1
  }
  return index + column - 1
}

/** Files with the fixes made; of two that overlap the first counts. */
export function applyFixes(files: ReadonlyMap<string, string>, fixes: Fix[]): Map<string, string> {
  const changed = new Map(files)
  for (const [path, source] of files) {
    let text = ''
    let done = 0
    for (const fix of fixes.filter((each) => each.path === path).sort((a, b) => a.start - b.start)) {
      if (fix.start < done) continue
      text += source.slice(done, fix.start) + fix.text
      done = fix.end
    }
    changed.set(path, text + source.slice(done))
  }
  return changed
}

/** Why a file is changed: each explanation once, after the errors that it is for. */
export function reasonOf(fixes: Pick<Fix, 'why'>[]): string {
  const codes = new Map<string, Set<string>>()
  for (const { why } of fixes) {
    const [, code = '', text = why] = /^(TS\d+): (.*)$/s.exec(why) ?? []
    codes.set(text, (codes.get(text) ?? new Set()).add(code))
  }
  return [...codes].map(([text, of]) => `${[...of].join(', ')}: ${text}`).join('; ')
}

/** The least of several. */
export function leastConfidence(given: Confidence[]): Confidence {
  if (given.includes('low')) return 'low'
  return given.includes('medium') ? 'medium' : 'high'
}
