import type { Manifest } from '@passover/archive'
import type { ObjectStore } from '@passover/bus'

/**
 * Throws where the objects of a segment are there that is marked as removed: no index is read any more that says what of a session they hold. They
 * leave soon where retention took the segment out, and stay as evidence where somebody else marked it.
 */
export async function noneStandsRemoved(manifest: Pick<Manifest, 'all'>, objects: Pick<ObjectStore, 'list'>): Promise<void> {
  const there = new Set(await objects.list())
  const standing = (await manifest.all()).find(({ removed, object, index }) => removed && (there.has(object) || there.has(index)))
  if (standing)
    throw new Error(`segment ${standing.k} is marked as removed and its objects are there: what it holds of the session would stay`)
}
