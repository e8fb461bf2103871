import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import {
  type Archive,
  checkFrames,
  encodeErased,
  encodeFrame,
  type Frame,
  type Manifest,
  type ManifestEntry,
  readStanding,
  SegmentDamaged,
  segmentName,
  sequenceOf,
} from '@passover/archive'
import type { Bus, ObjectStore } from '@passover/bus'
import { type Random, sha256 } from '@passover/schemas'
import { buildSegmentIndex } from '../archive/rebuild-index.js'

export interface RedactDeps {
  bus: Bus
  manifest: Manifest
  objects: ObjectStore
  archive: Archive
  random: Random
  /** Distinguishes this process's objects from those of other replicas. */
  instance: string
}

const gzipAsync = promisify(gzip)
const MAX_TRIES = 20

/**
 * Rewrites a sealed segment with erased frames in place of the entries in `erased`, which maps sequences to digests (one character per byte). Returns
 * false if the segment is not sealed yet. Throws if a digest does not match the archived entry, and SegmentDamaged if the segment is not as it was
 * sealed.
 */
export async function redactSegment(deps: RedactDeps, k: number, erased: ReadonlyMap<number, string>): Promise<boolean> {
  const { manifest, objects, archive } = deps
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const standing = await readStanding(manifest, objects, k)
    if (!standing) return false
    const { entry, revision, frames } = standing
    if (!frames) return true
    if (!frames.some((frame) => frame.kind === 'event' && erased.has(frame.event.sequence))) {
      // Another audit may have rewritten it. References in the old version must not keep parts.
      await archive.renew(k)
      return true
    }
    const next = await written(deps, entry, { frames, erased })
    if (await manifest.replace(next, revision)) {
      await objects.delete(entry.object, 'overwrite')
      await objects.delete(entry.index, 'overwrite')
      await archive.renew(k)
      return true
    }
    // Overwritten on disk: it may still hold messages that another erasure removes.
    await objects.delete(next.object, 'overwrite')
    await objects.delete(next.index, 'overwrite')
  }
  throw new Error(`segment ${k} was changed by other processes ${MAX_TRIES} times while it was being rewritten`)
}

async function written(
  { bus, objects, instance, random }: RedactDeps,
  entry: ManifestEntry,
  { frames, erased }: { frames: readonly Frame[]; erased: ReadonlyMap<number, string> },
): Promise<ManifestEntry> {
  // A digest index built from changed frames would hide which entry was changed.
  const damage = checkFrames(entry, frames)
  if (damage !== undefined) throw new SegmentDamaged(`segment ${entry.k} ${damage}: passover verify shows details`, 0)
  const next = frames.map((frame) => withoutErased(frame, erased))
  const raw = Buffer.concat(next.map(bytesOf))
  const data = entry.compression === 'gzip' ? await gzipAsync(raw, { level: 1 }) : raw
  const index = buildSegmentIndex(bus, entry.k, next)
  const name = `${segmentName(entry.k)}.${instance}${Buffer.from(random.bytes(6)).toString('hex')}`
  await objects.put(`${name}.frames`, data)
  await objects.put(`${name}.index`, index)
  return {
    ...entry,
    object: `${name}.frames`,
    index: `${name}.index`,
    size: data.length,
    raw_size: raw.length,
    sha256: sha256(data),
    index_sha256: sha256(index),
  }
}

function withoutErased(frame: Frame, erased: ReadonlyMap<number, string>): Frame {
  const sequence = sequenceOf(frame)
  const digest = frame.kind === 'event' ? erased.get(sequence) : undefined
  if (digest === undefined) return frame
  if (Buffer.from(frame.digest).toString('latin1') !== digest) {
    throw new Error(`sequence ${sequence} of the archive does not match its tombstone; it is not erased`)
  }
  return { kind: 'erased', sequence, digest: frame.digest }
}

function bytesOf(frame: Frame): Uint8Array {
  return frame.kind === 'erased' ? encodeErased(frame.sequence, frame.digest) : encodeFrame(frame.event).bytes
}
