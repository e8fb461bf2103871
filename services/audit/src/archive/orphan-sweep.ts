import type { Manifest } from '@passover/archive'
import type { Bus, ObjectStore } from '@passover/bus'

/** Who writes an object adds to it every few ms: one that nobody added to for so long was given up. */
const ABANDONED_AFTER_MS = 600_000

/** What of objects no object is made of: pieces that a crash left. Gives the writings that may go on yet. */
export function sweepOrphanChunks(bus: Bus, objects: ObjectStore): Promise<string[]> {
  // By a clock of its own it would take for old what is young.
  return objects.sweep(bus.clockMeasured ? bus.now() - ABANDONED_AFTER_MS : 0)
}

/** Deletes objects that a crash between storing and claiming left behind: those of sealed segments that no entry names. */
export async function sweepOrphanObjects(manifest: Manifest, objects: ObjectStore): Promise<number> {
  const byName = new Map<string, string[]>()
  for (const name of await objects.list()) {
    const k = name.split('.')[0] ?? ''
    byName.set(k, [...(byName.get(k) ?? []), name])
  }
  let swept = 0
  for (const [k, names] of byName) {
    if (names.length <= 2) continue
    const found = await manifest.standing(Number(k))
    if (!found) continue
    const { entry, revision } = found
    // Of one that was removed whoever cleans up after it still reads what it held, and then deletes that.
    const named = [entry.object, entry.index, entry.removed?.kept?.object]
    const orphans = names.filter((name) => !named.includes(name))
    // Whoever writes the segment anew just now then finds its entry changed, and begins anew.
    if (orphans.length === 0 || !(await manifest.replace(entry, revision))) continue
    // One may be what stood there before entries were erased.
    for (const name of orphans) await objects.delete(name, 'overwrite')
    swept += orphans.length
  }
  return swept
}
