import { type ShownFile, sha256 } from '@passover/schemas'
import { formatPatch, type StructuredPatch, structuredPatch } from 'diff'
import type { NumberedModification } from '../approval/modifications.js'
import { binaryType, contentBytes, countOf, type TextForm, textForm } from './content.js'
import { warningsOf } from './warnings.js'

/** A file's content on one side of a change. */
export interface FileSide {
  bytes: Buffer
  mode?: number | undefined
}

/** Combined effect of a set of changes on one file. A side is absent if the file does not exist on it. */
export interface FileEffect {
  path: string
  numbers: readonly number[]
  reasons: readonly string[]
  before?: FileSide | undefined
  after?: FileSide | undefined
}

export interface ShowOptions {
  /**
   * Shows a diff that is too large as all old lines removed and all new lines added, so that nothing is hidden.
   * @defaultValue false
   */
  whole?: boolean | undefined
  /**
   * Limit for the search for differences, in steps for all files together: 12 million take about a second.
   * @defaultValue 12,000,000
   */
  steps?: number | undefined
  /**
   * Maximum number of characters that are compared and searched, in all files together; a line counts as 16 more. Files beyond it are shown as
   * `too_many_changes`, and only the beginning of what they add is searched for warnings.
   * @defaultValue 16 MiB
   */
  text?: number | undefined
}

const MAX_STEPS = 12_000_000
/** Maximum number of line edits in one file: 1,000 lines replaced. */
const MAX_EDITS_IN_FILE = 2_000
/** Number of characters that cost as much as a line. */
const LINE_COST = 16
/** Maximum number of characters of both sides that are compared, in one file and in total. */
const MAX_TEXT_IN_FILE = 4 * 1024 * 1024
const MAX_TEXT = 16 * 1024 * 1024
const MAX_LINES_IN_FILE = 100_000
const CONTEXT_LINES = 3

/**
 * Shows what would be written, file by file. Everything that a person approves from uses this function: terminal, HTTP and inbox. Diffs are limited
 * by counting steps, not by time, so that all of them show the same.
 */
export function showFiles(
  effects: readonly FileEffect[],
  { whole = false, steps = MAX_STEPS, text = MAX_TEXT }: ShowOptions = {},
): ShownFile[] {
  const left: Budget = { steps, text, searched: text, whole }
  return effects.map((effect) => showFile(effect, left))
}

/** Returns the effect that one modification proposes, on the file as its subagent saw it. */
export function proposedEffect({ number, modification }: NumberedModification): FileEffect {
  const { path, operation, old_content, new_content, reason } = modification
  const isNew = operation === 'create' || (operation === undefined && old_content === '')
  const before = isNew && old_content === '' ? undefined : { bytes: contentBytes(old_content, modification) }
  const after = operation === 'delete' && new_content === '' ? undefined : { bytes: contentBytes(new_content, modification) }
  return { path, numbers: [number], reasons: [reason], before, after }
}

/** Shows each modification separately, for lists. For the combined result use {@link showFiles}. */
export function showProposals(modifications: readonly NumberedModification[], options?: ShowOptions): ShownFile[] {
  return showFiles(modifications.map(proposedEffect), options)
}

interface Budget {
  steps: number
  text: number
  /** Number of characters that may still be searched for warnings. */
  searched: number
  whole: boolean
}

function showFile(effect: FileEffect, left: Budget): ShownFile {
  const { path, numbers, reasons } = effect
  const [before, after] = [sideOf(effect.before), sideOf(effect.after)]
  const isText = (before.text || !effect.before) && (after.text || !effect.after)
  const patch = isText ? patchOf(path, before.text, after.text, left) : undefined
  const lines = patch?.hunks.flatMap((hunk) => hunk.lines) ?? []
  // Without a diff, all lines may be new.
  const added = patch ? addedLines(lines) : [after.text?.text ?? '']
  const searched = { added: within(left, added.join('')), reasons: reasons.map((reason) => within(left, reason)) }
  const bytes = effect.after?.bytes
  const mode = effect.after?.mode ?? effect.before?.mode
  return {
    path,
    operation: effect.before ? (effect.after ? 'modify' : 'delete') : 'create',
    numbers: [...numbers],
    ...(before.shown && { before: before.shown }),
    ...(after.shown && { after: after.shown }),
    added: patch ? added.length : 0,
    removed: lines.filter((line) => line.startsWith('-')).length,
    ...(patch
      ? { diff: formatPatch(patch).replace(/^=+\n/, '') }
      : { omitted: isText ? ('too_many_changes' as const) : ('binary' as const) }),
    warnings: warningsOf({ path, ...searched, before: before.text, after: after.text, bytes, mode }),
  }
}

/** Returns the beginning of a text that may still be searched. */
function within(left: Budget, text: string): string {
  const some = text.slice(0, left.searched)
  left.searched -= some.length
  return some
}

function addedLines(lines: readonly string[]): string[] {
  return lines.flatMap((line, index) => {
    if (!line.startsWith('+')) return []
    return [lines[index + 1]?.startsWith('\\') ? line.slice(1) : `${line.slice(1)}\n`]
  })
}

interface Side {
  shown?: NonNullable<ShownFile['before']>
  text?: TextForm | undefined
}

function sideOf(side: FileSide | undefined): Side {
  if (!side) return {}
  const { bytes, mode } = side
  const text = textForm(bytes)
  const type = text ? {} : { type: binaryType(bytes).type }
  return { text, shown: { size: bytes.length, sha256: sha256(bytes), ...type, ...(mode !== undefined && { mode: mode & 0o7777 }) } }
}

/** Returns `undefined` if there are too many changes. Only a line feed ends a line. */
function patchOf(path: string, before: TextForm | undefined, after: TextForm | undefined, left: Budget): StructuredPatch | undefined {
  const names = { from: before ? `a/${path}` : '/dev/null', to: after ? `b/${path}` : '/dev/null' }
  const [from, to] = [written(before), written(after)]
  const size = from.length + to.length
  const lines = size <= MAX_TEXT_IN_FILE ? countOf(from, '\n') + countOf(to, '\n') : MAX_LINES_IN_FILE
  const cost = size + lines * LINE_COST
  const fits = size <= MAX_TEXT_IN_FILE && lines <= MAX_LINES_IN_FILE && cost <= left.text
  const patch = fits ? searchPatch(names, from, to, left) : undefined
  if (patch) left.text -= cost
  return patch ?? (left.whole ? wholePatch(names, from, to) : undefined)
}

/** Returns the text as it is shown, including the byte order mark. */
function written(form: TextForm | undefined): string {
  return form ? `${form.bom ? '\ufeff' : ''}${form.text}` : ''
}

interface Names {
  from: string
  to: string
}

function searchPatch({ from, to }: Names, old: string, content: string, left: Budget): StructuredPatch | undefined {
  // An empty side needs no search.
  if (old === '' || content === '') return wholePatch({ from, to }, old, content)
  const lines = countOf(old, '\n') + countOf(content, '\n')
  const maxEditLength = Math.min(MAX_EDITS_IN_FILE, editsWithin(left.steps, lines))
  const patch = structuredPatch(from, to, old, content, undefined, undefined, { context: CONTEXT_LINES, maxEditLength })
  const edits = patch ? patch.hunks.flatMap((hunk) => hunk.lines).filter((line) => !line.startsWith(' ')).length : maxEditLength
  left.steps = Math.max(0, left.steps - stepsOf(edits, lines))
  return patch
}

/** Cost of the search: the square of the edits, plus a fraction of the equal lines for each edit. */
const EQUAL_LINES_A_STEP = 4

function stepsOf(edits: number, lines: number): number {
  return edits * (edits + lines / EQUAL_LINES_A_STEP)
}

/** Returns the maximum number of edits whose search stays within these steps: the inverse of {@link stepsOf}. */
function editsWithin(steps: number, lines: number): number {
  const part = lines / EQUAL_LINES_A_STEP
  return Math.floor((Math.sqrt(part * part + 4 * steps) - part) / 2)
}

/** Returns a diff with all old lines removed and all new lines added. */
function wholePatch({ from, to }: Names, old: string, content: string): StructuredPatch {
  const [removed, added] = [linesOf(old, '-'), linesOf(content, '+')]
  const counted = (lines: string[]) => lines.filter((line) => !line.startsWith('\\')).length
  const [oldLines, newLines] = [counted(removed), counted(added)]
  const hunk = { oldStart: 1, oldLines, newStart: 1, newLines, lines: [...removed, ...added] }
  return {
    oldFileName: from,
    newFileName: to,
    oldHeader: undefined,
    newHeader: undefined,
    hunks: oldLines + newLines > 0 ? [hunk] : [],
  } as StructuredPatch
}

function linesOf(text: string, mark: '+' | '-'): string[] {
  if (text === '') return []
  const lines = text.split('\n').map((line) => `${mark}${line}`)
  if (text.endsWith('\n')) return lines.slice(0, -1)
  return [...lines, '\\ No newline at end of file']
}
