import { randomBytes } from 'node:crypto'
import {
  checkFrames,
  decodeIndex,
  type Frame,
  type Manifest,
  type ManifestEntry,
  readSegment,
  SegmentDamaged,
  segmentName,
} from '@passover/archive'
import { type Bus, ObjectError, type ObjectStore } from '@passover/bus'
import { sha256 } from '@passover/schemas'
import { buildSegmentIndex } from '../archive/rebuild-index.js'

const CHANGED_MESSAGE = 'another process changed the segment at the same time; try again'

export interface RepairDeps {
  bus: Bus
  manifest: Manifest
  objects: ObjectStore
}

/** Segments whose lost or damaged indexes were repaired, and those where that failed, with the reason. */
export interface RepairedIndexes {
  mended: number[]
  lost: { k: number; why: string }[]
}

/** Finds missing and damaged indexes, and has `repair` build each again, which returns the reason if that is not possible. */
export async function repairIndexes(
  deps: Pick<RepairDeps, 'manifest' | 'objects'>,
  repair: (k: number) => Promise<string | undefined>,
): Promise<RepairedIndexes> {
  const told: RepairedIndexes = { mended: [], lost: [] }
  for (const entry of await deps.manifest.all()) {
    if (entry.removed || (await isWhole(deps.objects, entry))) continue
    const why = await repair(entry.k)
    if (why === undefined) told.mended.push(entry.k)
    else told.lost.push({ k: entry.k, why })
  }
  return told
}

async function isWhole(objects: ObjectStore, { index, index_sha256 }: ManifestEntry): Promise<boolean> {
  try {
    const bytes = await objects.get(index)
    if (!bytes) return false
    decodeIndex(bytes)
    return index_sha256 === undefined || sha256(bytes) === index_sha256
  } catch (error) {
    if (error instanceof ObjectError || error instanceof SegmentDamaged) return false
    throw error
  }
}

/**
 * Builds a missing or damaged index again from its segment, if hash and chain show that the segment is intact. Usually the result has the bytes that
 * were sealed. Otherwise, for example after an erasure, the manifest entry is updated to the new index by compare-and-set. Returns the reason if that
 * is not possible.
 */
export async function repairIndex({ bus, manifest, objects }: RepairDeps, k: number): Promise<string | undefined> {
  const standing = await manifest.standing(k)
  if (!standing || standing.entry.removed || (await isWhole(objects, standing.entry))) return undefined
  const { entry, revision } = standing
  const frames = await wholeFrames(objects, entry)
  if (typeof frames === 'string') return frames
  const bytes = buildSegmentIndex(bus, k, frames)
  const index_sha256 = sha256(bytes)
  if (entry.index_sha256 === undefined || entry.index_sha256 === index_sha256) {
    await objects.put(entry.index, bytes)
    const now = await manifest.standing(k)
    if (now && !now.entry.removed && now.entry.index === entry.index) return undefined
    // The segment was changed meanwhile: data that was erased must not appear in the old index again.
    await objects.delete(entry.index, 'overwrite')
    return CHANGED_MESSAGE
  }
  const index = `${segmentName(k)}.${randomBytes(5).toString('hex')}.index`
  await objects.put(index, bytes)
  if (await manifest.replace({ ...entry, index, index_sha256 }, revision)) {
    await objects.delete(entry.index)
    return undefined
  }
  await objects.delete(index, 'overwrite')
  return CHANGED_MESSAGE
}

async function wholeFrames(objects: ObjectStore, entry: ManifestEntry): Promise<Frame[] | string> {
  try {
    const frames = await readSegment(objects, entry)
    return checkFrames(entry, frames) ?? frames
  } catch (error) {
    if (error instanceof ObjectError || error instanceof SegmentDamaged) return error.message
    throw error
  }
}
