/**
 * Byte limits of the stream and of every bucket, all derived from the stream's own limit.
 *
 * JetStream reserves `max_bytes` of a file stream when the stream is created or updated, and refuses a reservation that the server or the
 * account cannot hold. It does not reserve anything for a stream without `max_bytes`, and such a stream can use the space that others
 * reserved. So room for returns is guaranteed only while every stream of the account is bounded.
 */

const MIB = 1024 ** 2
const GIB = 1024 ** 3

/** Limits of the stream to try, largest first. */
export const STREAM_BYTES: readonly number[] = Array.from({ length: 9 }, (_, n) => (16 * GIB) / 2 ** n)
/**
 * Multiple of the stream's limit that the server must be able to reserve: the buckets get 0.9 of the stream's limit, and the rest is for parts
 * buckets.
 */
export const TOTAL_SHARE = 2.5
/** Smallest limit of a bucket: an agent's bucket holds at least one part. */
export const MIN_BUCKET_BYTES = MIB

export const MAX_PARTS_BYTES = 256 * MIB
const MIN_PARTS_BYTES = 8 * MIB
const PARTS_SHARE = 1 / 64

interface Share {
  share: number
  least: number
}

/** Shares of the stream's limit. They add up to at most 0.9 if the stream has 1 GiB or more. */
const SHARES: Readonly<Record<string, Share>> = {
  OBJ_archive: { share: 1 / 2, least: 32 * MIB },
  KV_passes: { share: 1 / 8, least: 8 * MIB },
  OBJ_snapshots: { share: 1 / 16, least: 8 * MIB },
  KV_inbox: { share: 1 / 32, least: 4 * MIB },
  KV_acknowledged: { share: 1 / 32, least: 4 * MIB },
}
const OTHER: Share = { share: 1 / 64, least: 4 * MIB }

/**
 * Returns the byte limit of a bucket.
 *
 * @param kind - `KV` or `OBJ`
 * @param bucket - name without the installation's prefix, such as `passes`
 * @param stream_bytes - limit of the main stream; if not positive, it is unlimited, and so are the buckets (-1)
 */
export function bucketBytes(kind: 'KV' | 'OBJ', bucket: string, stream_bytes: number): number {
  if (stream_bytes <= 0) return -1
  const { share, least } = SHARES[`${kind}_${bucket}`] ?? OTHER
  return Math.max(least, Math.floor(stream_bytes * share))
}

/** Returns the default byte limit of an agent's parts bucket. It is limited even if the stream is not. */
export function partsBytes(stream_bytes: number | undefined): number {
  if (stream_bytes === undefined || stream_bytes <= 0) return MAX_PARTS_BYTES
  return Math.min(MAX_PARTS_BYTES, Math.max(MIN_PARTS_BYTES, Math.floor(stream_bytes * PARTS_SHARE)))
}

/**
 * Returns the limits of the stream to try, largest first.
 *
 * @param storage_bytes - bytes that stream and buckets may reserve in total, if set
 * @param least - lower bound of the returned limits
 */
export function streamSizes(storage_bytes: number | undefined, least: number): number[] {
  const most = storage_bytes === undefined ? Number.POSITIVE_INFINITY : Math.floor(storage_bytes / TOTAL_SHARE)
  const sizes = STREAM_BYTES.filter((size) => size < most)
  return (storage_bytes === undefined ? sizes : [most, ...sizes]).filter((size) => size >= least)
}
