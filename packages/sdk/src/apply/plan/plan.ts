import { contradictionIn, type NumberedModification } from '@passover/core'
import { contentBytes } from '@passover/core/changes'
import type { FileModificationArtifact } from '@passover/schemas'
import type { FileState } from '../files/file-state.js'
import { inFormOf, isBinary, sameContent, textOf } from './file-encoding.js'
import { checkPath, PathTree } from './safe-path.js'

/** The three sides of a conflict, all written in the same encoding. */
export interface ConflictVersions {
  /** Content that the subagent saw. */
  old_content: string
  /** Current content. Absent if the file does not exist. */
  current?: string
  /** Content that the subagent proposes. */
  new_content: string
  encoding: 'utf8' | 'base64'
}

/** Planned result of one modification. */
export type PlannedChange = Pick<NumberedModification, 'number' | 'digest'> & {
  path: string
  operation: 'create' | 'modify' | 'delete'
} & (
    | { verdict: 'ready' }
    /** The file has the proposed content already. */
    | { verdict: 'already' }
    /** The file changed since the subagent saw it. */
    | { verdict: 'conflict'; why: string; sides: ConflictVersions }
    /** The file is never written, whatever its content. */
    | { verdict: 'refused'; why: string }
  )

/** Change of one file by the complete set. */
export interface Change {
  path: string
  before: { bytes: Buffer; mode: number | undefined } | undefined
  after: { bytes: Buffer; mode: number | undefined; owner?: { uid: number; gid: number } | undefined } | undefined
}

export interface Plan {
  items: PlannedChange[]
  /** Empty unless every item is ready or done already: a set is applied completely or not at all. */
  changes: Change[]
  /** Combined effect of the ready items on each file, even if other items block the set. */
  effects: Change[]
}

export interface PlanOptions {
  /** True to accept binary contents, too. */
  binary: boolean
}

/** Returns the paths whose state a plan of these modifications needs. */
export function pathsOf(chosen: readonly NumberedModification[]): string[] {
  const paths = chosen.flatMap(({ modification }) => {
    const judged = checkPath(modification.path)
    return judged.ok ? [judged.path] : []
  })
  return [...new Set(paths)]
}

/**
 * Plans the effect of the selected modifications on the files in view. They apply in order: a later modification of the same file builds on the
 * earlier one. A file is overwritten only if it is as its subagent saw it (`old_content`).
 */
export function planChanges(chosen: readonly NumberedModification[], view: ReadonlyMap<string, FileState>, options: PlanOptions): Plan {
  const set = new PathTree(pathsOf(chosen))
  const now = new Map(view)
  const items = chosen.map((one) => planOne(one, { set, now, options }))
  const whole = items.every(({ verdict }) => verdict === 'ready' || verdict === 'already')
  const effects = changesBetween(view, now)
  return { items, changes: whole ? effects : [], effects }
}

interface Around {
  set: PathTree
  /** State of the files after the earlier modifications. */
  now: Map<string, FileState>
  options: PlanOptions
}

function planOne({ number, digest, modification }: NumberedModification, around: Around): PlannedChange {
  const judged = checkPath(modification.path)
  const path = judged.ok ? judged.path : modification.path
  const state: FileState = (judged.ok ? around.now.get(path) : undefined) ?? { kind: 'absent' }
  const operation = operationOf(modification, state)
  const about = { number, digest, path, operation }
  const why = judged.ok ? objection(path, modification, around) : judged.why
  if (why !== undefined) return { ...about, verdict: 'refused', why }
  const contradiction = contradictionIn(modification)
  if (contradiction !== undefined) return { ...about, verdict: 'refused', why: contradiction }
  if (state.kind === 'refused') return { ...about, verdict: 'refused', why: state.why }
  const next = after(operation, modification, state)
  if ('why' in next) return { ...about, verdict: 'conflict', why: next.why, sides: sidesOf(modification, state) }
  if (next.state === state) return { ...about, verdict: 'already' }
  around.now.set(path, next.state)
  return { ...about, verdict: 'ready' }
}

/** Returns the operation, which may be omitted: replacing an empty content of a missing file can only create it. */
function operationOf({ operation, old_content }: FileModificationArtifact, state: FileState): 'create' | 'modify' | 'delete' {
  return operation ?? (old_content === '' && state.kind === 'absent' ? 'create' : 'modify')
}

function objection(path: string, modification: FileModificationArtifact, { set, now, options }: Around): string | undefined {
  const twin = set.twinOf(path)
  if (twin !== undefined) return `its name differs from ${twin} only in case or Unicode form, which is the same file on other systems`
  const above = set.fileAbove(path)
  if (above !== undefined) return `${above} is a file of the same set`
  if (options.binary) return undefined
  const state = now.get(path)
  const contents = [contentBytes(modification.old_content, modification), contentBytes(modification.new_content, modification)]
  if (state?.kind === 'file') contents.push(state.bytes)
  return contents.some(isBinary) ? 'it is binary, and binary content is applied only on request' : undefined
}

type Readable = Exclude<FileState, { kind: 'refused' }>

function after(
  operation: PlannedChange['operation'],
  modification: FileModificationArtifact,
  state: Readable,
): { state: Readable } | { why: string } {
  const [old, content] = [contentBytes(modification.old_content, modification), contentBytes(modification.new_content, modification)]
  if (state.kind === 'absent') {
    if (operation === 'create') return { state: { kind: 'file', bytes: content, mode: undefined } }
    return operation === 'delete' ? { state } : { why: 'it does not exist' }
  }
  if (operation === 'create') return sameContent(state.bytes, content) ? { state } : { why: 'it exists already' }
  if (sameContent(state.bytes, old)) {
    if (operation === 'delete') return { state: { kind: 'absent' } }
    const bytes = inFormOf(state.bytes, old, content)
    return { state: bytes.equals(state.bytes) ? state : { kind: 'file', bytes, mode: state.mode } }
  }
  if (operation === 'modify' && sameContent(state.bytes, content)) return { state }
  return { why: 'it was changed since' }
}

function changesBetween(before: ReadonlyMap<string, FileState>, now: ReadonlyMap<string, FileState>): Change[] {
  return [...now].flatMap(([path, state]) => {
    const was = before.get(path) ?? { kind: 'absent' as const }
    if (state === was || state.kind === 'refused' || was.kind === 'refused') return []
    if (state.kind === 'absent' && was.kind === 'absent') return []
    if (state.kind === 'file' && was.kind === 'file' && state.bytes.equals(was.bytes)) return []
    const mode = was.kind === 'file' ? was.mode : undefined
    return [
      {
        path,
        before: was.kind === 'file' ? { bytes: was.bytes, mode: was.mode } : undefined,
        after: state.kind === 'file' ? { bytes: state.bytes, mode } : undefined,
      },
    ]
  })
}

function sidesOf({ old_content, new_content, encoding }: FileModificationArtifact, state: Readable): ConflictVersions {
  if (state.kind === 'absent') return { old_content, new_content, encoding: encoding ?? 'utf8' }
  const text = encoding === 'base64' ? undefined : textOf(state.bytes)
  if (text !== undefined) return { old_content, current: text, new_content, encoding: 'utf8' }
  const written = (content: string) => contentBytes(content, { encoding }).toString('base64')
  return {
    old_content: written(old_content),
    current: state.bytes.toString('base64'),
    new_content: written(new_content),
    encoding: 'base64',
  }
}
