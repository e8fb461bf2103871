import type { Manifest } from '@passover/archive'
import type { Bus, ObjectStore } from '@passover/bus'

/** Milliseconds without a new chunk after which an object counts as abandoned. A writer adds a chunk every few milliseconds. */
const ABANDONED_AFTER_MS = 600_000

/** Removes chunks that belong to no object, such as those left by a crash. Returns the ids of writes that may still be in progress. */
export function sweepOrphanChunks(bus: Bus, objects: ObjectStore): Promise<string[]> {
  // With an unsynchronized clock, recent chunks could look old.
  return objects.sweep(bus.clockMeasured ? bus.now() - ABANDONED_AFTER_MS : 0)
}

/**
 * Deletes objects of sealed segments that no manifest entry names, such as those left by a crash between storing and claiming. Returns how many were
 * deleted.
 */
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
    // Keeps the objects of a removed segment: the process that cleans up after the removal still reads them and then deletes them.
    const named = [entry.object, entry.index, entry.removed?.kept?.object]
    const orphans = names.filter((name) => !named.includes(name))
    // Writes the entry unchanged: a process that is rewriting the segment then finds another revision and starts over.
    if (orphans.length === 0 || !(await manifest.replace(entry, revision))) continue
    // The object may hold messages that were erased since, so its bytes are overwritten.
    for (const name of orphans) await objects.delete(name, 'overwrite')
    swept += orphans.length
  }
  return swept
}
