import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import {
  type Archive,
  decodeIndex,
  encodeErased,
  encodeFrame,
  encodeIndex,
  type Frame,
  type Manifest,
  type ManifestEntry,
  partsNamed,
  printsOf,
  readSegment,
  SegmentDamaged,
  segmentName,
  sequenceOf,
} from '@passover/archive'
import { type ObjectStore, readHeaders } from '@passover/bus'
import { type Random, sha256 } from '@passover/schemas'

export interface RewriteDeps {
  manifest: Manifest
  objects: ObjectStore
  archive: Archive
  random: Random
  /** Tells this process's objects from a replica's. */
  instance: string
}

const gzipAsync = promisify(gzip)
const TRIES = 20

/**
 * Writes a sealed segment anew with erased frames in the place of these entries (their digests, a character a byte, by sequence). False: it
 * is not sealed yet. Throws where a digest is not that of what stands there.
 */
export async function rewriteSegment(deps: RewriteDeps, k: number, erased: ReadonlyMap<number, string>): Promise<boolean> {
  const { manifest, objects, archive } = deps
  for (let tries = 0; tries < TRIES; tries++) {
    const standing = await manifest.standing(k)
    if (!standing) return false
    const { entry, revision } = standing
    if (entry.removed) return true
    const frames = await readSegment(objects, entry)
    if (!frames.some((frame) => frame.kind === 'event' && erased.has(frame.event.sequence))) {
      // Another audit may have written it: what it referred to before must not keep parts.
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
    await objects.delete(next.object)
    await objects.delete(next.index)
  }
  throw new Error(`segment ${k} was changed by others ${TRIES} times while it was written anew`)
}

async function written(
  { objects, instance, random }: RewriteDeps,
  entry: ManifestEntry,
  { frames, erased }: { frames: readonly Frame[]; erased: ReadonlyMap<number, string> },
): Promise<ManifestEntry> {
  const raw = Buffer.concat(frames.map((frame) => bytesOf(frame, erased)))
  const data = entry.compression === 'gzip' ? await gzipAsync(raw, { level: 1 }) : raw
  const old = await indexOf(objects, entry)
  const kept = decodeIndex(old)
    .map((row) => ({ ...row, sequences: row.sequences.filter((sequence) => !erased.has(sequence)) }))
    .filter(({ sequences }) => sequences.length > 0)
  const parts = new Set(
    frames.flatMap((frame) =>
      frame.kind === 'event' && !erased.has(frame.event.sequence)
        ? partsNamed({ data: frame.event.data, headers: readHeaders(frame.event.headers) })
        : [],
    ),
  )
  const index = encodeIndex(entry.k, kept, { prints: printsOf(old), parts })
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

/** What is made of an index that is not the sealed one would stand there as if it were. */
async function indexOf(objects: ObjectStore, { index, index_sha256 }: ManifestEntry): Promise<Uint8Array> {
  const bytes = await objects.get(index)
  // One that was sealed by an earlier version has no hash.
  if (bytes && sha256(bytes) === (index_sha256 ?? sha256(bytes))) return bytes
  throw new SegmentDamaged(`index ${index} is ${bytes ? 'not what was sealed' : 'missing'}: passover audit rebuild mends it`, 0)
}

function bytesOf(frame: Frame, erased: ReadonlyMap<number, string>): Uint8Array {
  const sequence = sequenceOf(frame)
  if (frame.kind === 'erased') return encodeErased(sequence, frame.digest)
  const digest = erased.get(sequence)
  if (digest === undefined) return encodeFrame(frame.event).bytes
  if (Buffer.from(frame.digest).toString('latin1') !== digest) {
    throw new Error(`sequence ${sequence} of the archive is not what its tombstone stands for: it is not erased`)
  }
  return encodeErased(sequence, frame.digest)
}
