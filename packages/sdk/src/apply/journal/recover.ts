import { type Bus, encode } from '@passover/bus'
import { HEADER, keyText, type PassKey, soundTraceparent } from '@passover/schemas'
import { eventHeaders, publishUnguarded } from '../../messages/publish.js'
import type { Deps } from '../../runtime/dependencies.js'
import type { DirectoryHandle } from '../files/directory-handle.js'
import { type RecoveredChangeSet, recoverChangeSet, throwUnfinished, writtenFiles } from './change-set.js'
import type { LeftoverFile } from './leftovers.js'
import { lockDirectory } from './lock.js'
import { listSets, markSet, openHome, openSet, removeBytes, removeSet, type StoredSet } from './undo-journal.js'

/** The directory to change, and the identity that publishes the events. */
export interface ApplyContext {
  deps: Deps
  /** Role of the connection `deps.bus`: an agent publishes events of its own passes, a person of all. */
  as: 'agent' | 'person'
  /** Directory in which changes are made. Nothing outside of it is written. */
  directory: string
}

/** A set that a killed process left incomplete, and how it was resolved. */
export interface RecoveredSet {
  id: string
  kind: 'apply' | 'undo'
  /** `ignored`: the set was not written by this user for this directory. */
  outcome: 'finished' | 'put_back' | 'ignored'
  /** Files whose earlier content was restored. */
  restored?: string[]
  /** Files that were not restored. They are reported each time while their earlier content is kept. */
  left?: LeftoverFile[]
}

/** Milliseconds for which an applied set is kept for undo. The record in the archive is not affected. */
const UNDO_RETENTION_MS = 30 * 86_400_000

/**
 * Recovers all sets that a killed process left in the directory. The caller holds the lock. Resolves incomplete sets first, then publishes missing
 * events. Events of another agent are left to a process that may publish them.
 */
export async function recoverLocked(context: ApplyContext, folder: DirectoryHandle): Promise<RecoveredSet[]> {
  const { directory } = context
  const settled: RecoveredSet[] = []
  for (const set of await listSets(directory, folder)) {
    if (set.foreign) {
      settled.push({ id: set.id, kind: 'apply', outcome: 'ignored' })
      continue
    }
    const { whole, restored, left } = await settleOne(directory, set)
    const isNews = !set.applied && (!set.left || left.length > 0)
    const details = { ...(restored.length > 0 && { restored }), ...(left.length > 0 && { left }) }
    if (set.intent && isNews) settled.push({ id: set.id, kind: set.intent.kind, outcome: whole ? 'finished' : 'put_back', ...details })
    if (!whole?.intent) continue
    if (!whole.told && mayPublish(context, whole.intent.key)) await publishApplied(context, whole)
    else if (whole.told) await tidy(context, whole)
  }
  return settled
}

async function settleOne(directory: string, set: StoredSet): Promise<RecoveredChangeSet> {
  try {
    return await recoverChangeSet(directory, set)
  } catch (error) {
    return throwUnfinished(directory, set, error)
  }
}

/** An incomplete set: its process was killed or is still running. */
export interface InterruptedSet {
  id: string
  kind: 'apply' | 'undo'
  /** Paths that have their new content now, out of `total` files. */
  written: string[]
  total: number
}

/**
 * Recovers the sets that a killed process left in a directory, before anything is planned there: partially written sets would look like conflicts.
 * Takes the lock only if there is something to recover, so that it works in a read-only directory.
 */
export async function recoverDirectory(context: ApplyContext): Promise<RecoveredSet[]> {
  await using folder = await openHome(context.directory, 'only_look')
  if (!folder || !(await listSets(context.directory, folder)).some(({ applied }) => !applied)) return []
  await using _lock = await lockDirectory(context.deps, folder)
  return await recoverLocked(context, folder)
}

/** Lists what {@link recoverDirectory} would finish or roll back, and changes nothing. */
export async function interruptedSets(directory: string): Promise<InterruptedSet[]> {
  await using folder = await openHome(directory, 'only_look')
  const sets = folder ? await listSets(directory, folder) : []
  const open = sets.filter(({ intent, applied, left }) => intent && !applied && !left)
  return Promise.all(open.map(async (set) => ({ id: set.id, kind: set.intent?.kind ?? 'apply', ...(await writtenFiles(directory, set)) })))
}

function mayPublish({ as, deps }: ApplyContext, key: PassKey): boolean {
  return as === 'person' || deps.bus.identity === key.originator
}

/** Publishes the event of a set. Returns false if the server did not store it; the next process in this directory tries again. */
export async function publishApplied(context: ApplyContext, set: StoredSet): Promise<boolean> {
  const { deps, directory } = context
  const { intent } = set
  if (!intent) return false
  const { key } = intent
  await deps.faults?.at('apply:before-event', key)
  try {
    const traceparent = await storedTrace(deps.bus, key)
    const subject = deps.bus.subjects.event(key, 'applied', deps.bus.identity)
    await publishUnguarded(deps, { subject, headers: eventHeaders(traceparent), data: encode(intent.event) }, key)
  } catch (error) {
    deps.say?.(`${keyText(key)} was applied, but this could not be recorded yet: ${error instanceof Error ? error.message : String(error)}`)
    return false
  }
  await deps.faults?.at('apply:after-event', key)
  await using folder = await openSet(directory, set)
  await markSet(folder, 'told')
  await tidy(context, { ...set, told: true })
  return true
}

/** Deletes data that is no longer needed for an undo. For an undo, the record of who did it is kept for later attempts. */
async function tidy({ deps, directory }: ApplyContext, set: StoredSet): Promise<void> {
  const { intent } = set
  if (!intent) return
  if (intent.undoes !== undefined) {
    await removeSet(directory, { id: set.id, nonce: intent.undoes })
    await removeBytes(directory, set)
  }
  if (intent.at < deps.clock.now() - UNDO_RETENTION_MS) await removeSet(directory, set)
}

/** Returns the traceparent of a pass from its return, or `undefined` if it is not traced or no longer in the stream. */
export async function storedTrace(bus: Bus, key: PassKey): Promise<string | undefined> {
  const stored = await bus.journal.last(bus.subjects.return(key, key.subagent)).catch(() => undefined)
  return soundTraceparent(stored?.headers.get(HEADER.traceparent))
}
