import { checkPolicy, type KnownAgents, type PathSegment, type PolicyFault, pathText, readPolicy } from '@passover/core'
import { type FileIssue, schemaFaults } from '@passover/operator'
import type { PassOverPreferences } from '@passover/schemas'
import { findNodeAtLocation, getNodeValue, type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser'
import type { Context } from '../connection/context.js'
import { findPolicyFile, type PolicyFile } from './find-file.js'

export interface PolicyFileReading {
  /** `undefined` if the document is invalid; `faults` has the reasons. */
  document?: PassOverPreferences
  /** Errors and warnings, in the order of severity and line. */
  faults: FileIssue[]
  /** Returns the line of a place in the document, from 1. */
  lineOf(at: readonly (string | number)[]): number | undefined
  positionOf(at: readonly (string | number)[]): Position | undefined
  /** Parsed JSON value, valid or not; `undefined` if the file is not JSON. */
  value?: unknown
}

interface Position {
  line: number
  column: number
}

/** Like `readPolicyFile`, and also compiles every output_schema, even if the document has other faults. */
export async function checkPolicyFile(
  file: Pick<PolicyFile, 'text' | 'shown' | 'within'>,
  agents: KnownAgents,
): Promise<PolicyFileReading> {
  const read = readPolicyFile(file, agents)
  const more = await schemaFaults(read.value)
  if (more.length === 0) return read
  const locate = (at: readonly (string | number)[]) => read.positionOf(at)
  const { document: _, ...rest } = read
  return { ...rest, faults: inOrder([...read.faults, ...more.map((fault) => located(fault, { file: file.shown, locate }))]) }
}

/** Reads and checks a policy file. Comments and trailing commas are accepted, because people edit it by hand. */
export function readPolicyFile(
  { text, shown: file, within }: Pick<PolicyFile, 'text' | 'shown' | 'within'>,
  agents: KnownAgents,
): PolicyFileReading {
  const errors: ParseError[] = []
  const tree = parseTree(text, errors, { allowTrailingComma: true, allowEmptyContent: false })
  const root = tree && (within.length > 0 ? findNodeAtLocation(tree, within) : tree)
  const locate = (at: readonly (string | number)[]) => (root ? positionIn(text, nodeAt(root, at)) : undefined)
  const lineOf = (at: readonly (string | number)[]) => locate(at)?.line
  if (errors.length > 0 || !root)
    return { faults: errors.map((error) => ({ ...syntaxFault(error, text), file })), lineOf, positionOf: locate }
  const value: unknown = getNodeValue(root)
  const read = readPolicy(value)
  const found = [...repeats(root), ...(read.ok ? checkPolicy(read.document, agents) : read.faults)]
  const faults = found.map((fault) => located(fault, { file, locate }))
  const valid = read.ok && !faults.some(({ severity }) => severity === 'error')
  return { ...(valid ? { document: read.document } : {}), faults: inOrder(faults), lineOf, positionOf: locate, value }
}

interface Locating {
  file: string
  locate: (at: readonly (string | number)[]) => Position | undefined
}

function located(fault: PolicyFault, { file, locate }: Locating): FileIssue {
  const places = fault.places.map((place) => ({ ...place, ...(place.at ? locate(place.at) : {}) }))
  const [first] = places
  const position = first?.line === undefined ? {} : { line: first.line, column: first.column ?? 1 }
  return { ...fault, places, file, ...position }
}

/** Sorts errors before warnings, each by line. */
function inOrder(faults: FileIssue[]): FileIssue[] {
  const rank = ({ severity, line = 0 }: FileIssue) => (severity === 'error' ? 0 : 1e9) + line
  return faults.sort((a, b) => rank(a) - rank(b))
}

/** Returns the node of the key if there is one, so that a fault of a whole entry points at its name. */
function nodeAt(root: Node, at: readonly (string | number)[]): Node | undefined {
  const node = findNodeAtLocation(root, [...at])
  return node?.parent?.type === 'property' ? node.parent.children?.[0] : node
}

function positionIn(text: string, node: Node | undefined): Position | undefined {
  return node && position(text, node.offset)
}

function position(text: string, offset: number): Position {
  const ends = lineEnds(text)
  let line = 0
  for (let step = 2 ** Math.ceil(Math.log2(ends.length + 1)); step >= 1; step /= 2) {
    const end = ends[line + step - 1]
    if (end !== undefined && end < offset) line += step
  }
  return { line: line + 1, column: offset - (line === 0 ? -1 : (ends[line - 1] ?? -1)) }
}

let counted: { text: string; ends: number[] } | undefined

/** Returns the offsets of the line feeds of a text. Caches the last text, because a document with thousands of faults needs them for each fault. */
function lineEnds(text: string): number[] {
  if (counted?.text !== text) {
    const ends: number[] = []
    for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) ends.push(at)
    counted = { text, ends }
  }
  return counted.ends
}

const SYNTAX: Record<string, string> = {
  InvalidSymbol: 'a value: text in double quotes, a number, true, false or null',
  InvalidNumberFormat: 'a number',
  PropertyNameExpected: 'a name in double quotes',
  ValueExpected: 'a value',
  ColonExpected: 'a colon',
  CommaExpected: 'a comma',
  CloseBraceExpected: 'a closing }',
  CloseBracketExpected: 'a closing ]',
  EndOfFileExpected: 'the end of the file',
  UnexpectedEndOfString: 'a closing "',
}

function syntaxFault({ error, offset, length }: ParseError, text: string): FileIssue {
  const { line, column } = position(text, offset)
  const found =
    offset >= text.length ? 'the end of the file' : JSON.stringify(text.slice(offset, offset + Math.min(Math.max(length, 1), 40)))
  const expected = SYNTAX[printParseErrorCode(error)] ?? 'JSON'
  const message = `line ${line}, column ${column}: found ${found}, expected ${expected}`
  const places = [{ path: '$', value: undefined, line, column }]
  return { code: 'E030', severity: 'error', message, path: '$', places, found, expected, line, column }
}

/** Finds repeated names. JSON parsers silently take the last one, so a pair could be enabled although the file also disables it. */
function repeats(node: Node, at: (string | number)[] = []): PolicyFault[] {
  if (node.type === 'array') return (node.children ?? []).flatMap((child, index) => repeats(child, [...at, index]))
  if (node.type !== 'object') return []
  const seen = new Set<string>()
  return (node.children ?? []).flatMap((property) => {
    const [key, value] = property.children ?? []
    const name = String(key?.value)
    const here = [...at, name]
    const twice = seen.has(name) ? [repeated(here)] : []
    seen.add(name)
    return [...twice, ...(value ? repeats(value, here) : [])]
  })
}

function repeated(at: (string | number)[]): PolicyFault {
  const path = pathText(at)
  const expected = 'each name once'
  const message = `${path} is set twice`
  return {
    code: 'E030',
    severity: 'error',
    message,
    path,
    places: [{ path, at, value: undefined }],
    found: JSON.stringify(at.at(-1)),
    expected,
    suggestion: 'keep one of them',
  }
}

/** Returns the line in the project's policy file of a JSON path of the active policy; `undefined` if the path or the file is missing. */
export function locateInPolicyFile(context: Pick<Context, 'directory' | 'env'>, path: string): { file: string; line: number } | undefined {
  try {
    const file = findPolicyFile(context)
    const line = file && readPolicyFile(file, undefined).lineOf(parsePolicyPath(path))
    return line === undefined ? undefined : { file: file?.shown ?? '', line }
  } catch {
    // The refusal matters more than an unreadable file.
    return undefined
  }
}

const SEGMENT = /\.([A-Za-z_$][\w$]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]/g

/** Splits a path as formatted by the core package. */
export function parsePolicyPath(path: string): PathSegment[] {
  return [...path.matchAll(SEGMENT)].map(
    ([, word, index, quoted]) => word ?? (index === undefined ? String(JSON.parse(quoted ?? '""')) : Number(index)),
  )
}
