import { type Bus, encode } from '@passover/bus'
import { HEADER, keyText, type PassKey, soundTraceparent } from '@passover/schemas'
import { eventHeaders, publishUnguarded } from '../../messages/publish.js'
import type { Deps } from '../../runtime/dependencies.js'
import type { DirectoryHandle } from '../files/directory-handle.js'
import { type RecoveredChangeSet, recoverChangeSet, throwUnfinished, writtenFiles } from './change-set.js'
import type { LeftoverFile } from './leftovers.js'
import { lockDirectory } from './lock.js'
import { listSets, markSet, openHome, openSet, removeBytes, removeSet, type StoredSet } from './undo-journal.js'

/** Where changes are made, and as whom they are told. */
export interface ApplyHome {
  deps: Deps
  /** What `deps.bus` is connected as: an agent tells of its own passes, people of all. */
  as: 'agent' | 'person'
  /** Nothing is written outside. */
  directory: string
}

/** What a killed process left, and what became of it. */
export interface RecoveredSet {
  id: string
  kind: 'apply' | 'undo'
  /** `ignored`: this user did not write it for this directory, whoever did. */
  outcome: 'finished' | 'put_back' | 'ignored'
  /** Files whose earlier content was restored. */
  restored?: string[]
  /** Files that were not put back. They are told each time for as long as what stood in them is kept. */
  left?: LeftoverFile[]
}

/** An applied set that can be undone is kept for so long; what the output says of it stays in the archive. */
const UNDO_RETENTION_MS = 30 * 86_400_000

/**
 * Brings everything to its end that a killed process left in the directory (the lock is held): half-done sets first, then events that
 * were not told. What another agent's process left untold stays for one that may tell it.
 */
export async function recoverLocked(home: ApplyHome, folder: DirectoryHandle): Promise<RecoveredSet[]> {
  const { directory } = home
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
    if (!whole.told && mayTell(home, whole.intent.key)) await publishApplied(home, whole)
    else if (whole.told) await tidy(home, whole)
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

/** A set that is not finished: its process was killed, or is still at it. */
export interface InterruptedSet {
  id: string
  kind: 'apply' | 'undo'
  /** Paths that have their new content now, of `total` files. */
  written: string[]
  total: number
}

/**
 * Recovers what a killed process left in a directory, before anything is planned there: files that are half written would read as
 * conflicts. Takes the lock only if there is something to recover, so that looking at a read-only directory works.
 */
export async function recoverDirectory(home: ApplyHome): Promise<RecoveredSet[]> {
  await using folder = await openHome(home.directory, 'only_look')
  if (!folder || !(await listSets(home.directory, folder)).some(({ applied }) => !applied)) return []
  await using _lock = await lockDirectory(home.deps, folder)
  return await recoverLocked(home, folder)
}

/** Lists what {@link recoverDirectory} would finish or roll back, and changes nothing. */
export async function interruptedSets(directory: string): Promise<InterruptedSet[]> {
  await using folder = await openHome(directory, 'only_look')
  const sets = folder ? await listSets(directory, folder) : []
  const open = sets.filter(({ intent, applied, left }) => intent && !applied && !left)
  return Promise.all(open.map(async (set) => ({ id: set.id, kind: set.intent?.kind ?? 'apply', ...(await writtenFiles(directory, set)) })))
}

function mayTell({ as, deps }: ApplyHome, key: PassKey): boolean {
  return as === 'person' || deps.bus.identity === key.originator
}

/** Stores a set's event. False: the server did not take it now; it is told by whoever is here next. */
export async function publishApplied(home: ApplyHome, set: StoredSet): Promise<boolean> {
  const { deps, directory } = home
  const { intent } = set
  if (!intent) return false
  const { key } = intent
  await deps.faults?.at('apply:before-event', key)
  try {
    const traceparent = await storedTrace(deps.bus, key)
    const subject = deps.bus.subjects.event(key, 'applied', deps.bus.identity)
    await publishUnguarded(deps, { subject, headers: eventHeaders(traceparent), data: encode(intent.event) }, key)
  } catch (error) {
    deps.say?.(`${keyText(key)} was applied, which could not be recorded yet: ${error instanceof Error ? error.message : String(error)}`)
    return false
  }
  await deps.faults?.at('apply:after-event', key)
  await using folder = await openSet(directory, set)
  await markSet(folder, 'told')
  await tidy(home, { ...set, told: true })
  return true
}

/** Forgets what nothing can be undone of any longer. Of an undo it stays known who did it, for whoever tries again. */
async function tidy({ deps, directory }: ApplyHome, set: StoredSet): Promise<void> {
  const { intent } = set
  if (!intent) return
  if (intent.undoes !== undefined) {
    await removeSet(directory, { id: set.id, nonce: intent.undoes })
    await removeBytes(directory, set)
  }
  if (intent.at < deps.clock.now() - UNDO_RETENTION_MS) await removeSet(directory, set)
}

/** Where a pass stands in its trace, as its return says; undefined: it is not traced, or no longer in the stream. */
export async function storedTrace(bus: Bus, key: PassKey): Promise<string | undefined> {
  const stored = await bus.journal.last(bus.subjects.return(key, key.subagent)).catch(() => undefined)
  return soundTraceparent(stored?.headers.get(HEADER.traceparent))
}
