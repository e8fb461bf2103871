import { type NumberedModification, PassOverError } from '@passover/core'
import { type AppliedBody, type PassKey, WIRE_VERSION } from '@passover/schemas'
import type { Deps } from '../runtime/dependencies.js'
import { codeOf, type DirectoryHandle } from './files/directory-handle.js'
import { readFileStates } from './files/file-state.js'
import { type ChangeSetResult, runChangeSet } from './journal/change-set.js'
import { leftoversText } from './journal/leftovers.js'
import { lockDirectory } from './journal/lock.js'
import { type ApplyContext, publishApplied, type RecoveredSet, recoverDirectory, recoverLocked, storedTrace } from './journal/recover.js'
import { openHome } from './journal/undo-journal.js'
import { type ConflictVersions, type Plan, type PlannedChange, pathsOf, planChanges } from './plan/plan.js'

/** The modifications of a pass to apply, and the name to record. */
export interface ToApply {
  key: PassKey
  /** All modifications of the output. */
  all: readonly NumberedModification[]
  /** The selected modifications. The others count as rejected. */
  taken: readonly NumberedModification[]
  applied_by: string
  /** True to also apply binary content. */
  binary: boolean
}

/** A modification that was not applied. */
export interface NotApplied {
  /** Number of the modification in the output, from 1. */
  number: number
  /** The file, relative to the directory. */
  path: string
  /** `conflict`: the file has changed since the subagent read it. `refused`: Passover never writes this file. `failed`: writing it failed. */
  kind: 'conflict' | 'refused' | 'failed'
  /** The reason, for people. */
  why: string
  /** The versions of the file that conflict. */
  sides?: ConflictVersions
}

/** Result of applying an output, by path. */
export interface Applied {
  /** Paths that were written. */
  applied: string[]
  /** Paths of files that already had the proposed content. */
  already: string[]
  /** Approved modifications that cannot be applied. If there is one, nothing is written. */
  conflicts: NotApplied[]
  /** Paths without a conflict that were not written because another modification has one. */
  held_back: string[]
  /** Paths whose modifications were not approved or not selected. */
  rejected: string[]
  /** Time of writing, in milliseconds since 1970 by the server's clock. Absent if nothing was written. */
  applied_at?: number
  /** The person who approved the changes, else the agent. */
  applied_by: string
  /** False if the files were written, but the `applied` event is not stored yet. The next `apply` in this directory stores it. */
  recorded: boolean
  /** Change sets that a killed process had left incomplete in the directory, and how they were resolved. */
  settled: RecoveredSet[]
}

/** Plans the selected modifications against the current files. Writes nothing, not even a lock. */
export async function planSelected(directory: string, { taken, binary }: Pick<ToApply, 'taken' | 'binary'>): Promise<Plan> {
  return planChanges(taken, await readFileStates(directory, pathsOf(taken)), { binary })
}

/**
 * Writes the selected modifications: all of them, or none. First resolves sets that a killed process left in the directory. A file changes only if it
 * is as the subagent saw it, and keeps its mode, encoding, byte order mark and line ends. The event is stored once, afterwards.
 */
export function applySelected(context: ApplyContext, todo: ToApply): Promise<Applied> {
  return context.deps.tracing?.on ? inApplySpan(context.deps, todo, () => applyTaken(context, todo)) : applyTaken(context, todo)
}

/** Records a span for the application. It belongs to the trace of the pass, even if another process applies the changes minutes later. */
async function inApplySpan({ bus, tracing, clock }: Deps, todo: ToApply, apply: () => Promise<Applied>): Promise<Applied> {
  const at = clock.now()
  const parent = (await storedTrace(bus, todo.key)) ?? tracing?.active()
  const facts = { taken: todo.taken.length, applied_by: todo.applied_by }
  const span = tracing?.begin({ name: 'apply', key: todo.key, at, parent, facts })
  try {
    const applied = await apply()
    span?.note({ applied: applied.applied.length, conflicts: applied.conflicts.length })
    span?.end(clock.now(), applied.conflicts.length > 0 ? 'conflict' : undefined)
    return applied
  } catch (error) {
    span?.end(clock.now(), 'error')
    throw error
  }
}

async function applyTaken(context: ApplyContext, todo: ToApply): Promise<Applied> {
  if (todo.taken.length === 0) return report(todo, { items: [] }, await recoverDirectory(context))
  const entered = await enter(context).catch((error: unknown) => refuseAll(todo, error))
  if ('conflicts' in entered) return entered
  await using own = entered.folder
  await using _lock = entered.lock
  const settled = await recoverLocked(context, own)
  const plan = await planSelected(context.directory, todo)
  if (plan.changes.length === 0) return report(todo, plan, settled)
  // Awaited here so that the lock is held until writing is done.
  return await write(context, todo, { plan, settled })
}

/** Opens the apply journal of the directory and locks the directory for changes. */
async function enter({ deps, directory }: ApplyContext): Promise<{ folder: DirectoryHandle; lock: AsyncDisposable }> {
  const folder = await openHome(directory, 'make')
  if (!folder) throw new Error('.passover/apply was created but has disappeared')
  try {
    return { folder, lock: await lockDirectory(deps, folder) }
  } catch (error) {
    await folder[Symbol.asyncDispose]()
    throw error
  }
}

async function write(context: ApplyContext, todo: ToApply, { plan, settled }: { plan: Plan; settled: RecoveredSet[] }): Promise<Applied> {
  const { deps } = context
  const at = deps.clock.now()
  const nonce = Buffer.from(deps.random.bytes(12)).toString('hex')
  const planned = report(todo, plan, settled)
  const applied = plan.changes.map(({ path }) => path)
  const digests = plan.items.filter(({ verdict }) => verdict === 'ready').map(({ digest }) => digest)
  const { applied_by } = todo
  const event: AppliedBody = { v: WIRE_VERSION, applied_by, applied_at: at, applied, rejected: planned.rejected, digests, nonce }
  const done = await runChangeSet(context, { kind: 'apply', nonce, key: todo.key, at, changes: plan.changes, event })
  if (!done.ok) return { ...planned, conflicts: [failure(plan, done)], held_back: applied.filter((path) => path !== done.path) }
  const recorded = await publishApplied(context, done.set)
  return { ...planned, applied, held_back: [], applied_at: at, recorded }
}

function report({ all, taken, applied_by }: ToApply, { items }: Pick<Plan, 'items'>, settled: RecoveredSet[]): Applied {
  const names = new Set(taken.map(({ number }) => number))
  return {
    applied: [],
    already: pathsWith(items, 'already'),
    conflicts: items.flatMap(notApplied),
    held_back: pathsWith(items, 'ready'),
    rejected: unique(all.filter(({ number }) => !names.has(number)).map(({ modification }) => modification.path)),
    applied_by,
    recorded: true,
    settled,
  }
}

function pathsWith(items: readonly PlannedChange[], verdict: PlannedChange['verdict']): string[] {
  return unique(items.filter((item) => item.verdict === verdict).map(({ path }) => path))
}

function unique(paths: string[]): string[] {
  return [...new Set(paths)]
}

function notApplied(item: PlannedChange): NotApplied[] {
  if (item.verdict !== 'conflict' && item.verdict !== 'refused') return []
  const { number, path, verdict: kind, why } = item
  return [{ number, path, kind, why, ...(item.verdict === 'conflict' && { sides: item.sides }) }]
}

function failure({ items }: Plan, { path, kind, why, left }: Extract<ChangeSetResult, { ok: false }>): NotApplied {
  const number = items.find((item) => item.path === path)?.number ?? 0
  return { number, path, kind: kind === 'changed' ? 'conflict' : 'failed', why: `${why}${leftoversText(left)}` }
}

/**
 * Reports all modifications as refused because nothing can be written in the directory. An error because another process holds the lock is rethrown.
 */
function refuseAll(todo: ToApply, error: unknown): Applied {
  const coded = error instanceof PassOverError
  if (coded && error.code !== 'E013') throw error
  const code = codeOf(error)
  const why = coded ? error.message : code.startsWith('E') ? `cannot write to the directory (${code})` : String(error)
  const conflicts = todo.taken.map(({ number, modification }) => ({ number, path: modification.path, kind: 'refused' as const, why }))
  return { ...report(todo, { items: [] }, []), conflicts }
}
