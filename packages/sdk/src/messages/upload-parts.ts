import { BusReadError, PartsFullError } from '@passover/bus'
import { PassOverError } from '@passover/core'
import { PART_INLINE_BYTES, PARTS_INLINE_BYTES, type Part, registerAnswer } from '@passover/schemas'
import { type Deps, sleep } from '../runtime/dependencies.js'

/** Maximum number of refused uploads. A refusal may mean that the bucket is missing, which the dispatchers create on request. */
const MAX_REFUSALS = 4
const RETRY_DELAY_MS = 250
/** Milliseconds without a connection until a request is given up, as for a request without large parts. */
const UNREACHABLE_TIMEOUT_MS = 5_000
/** Retry delay for a full bucket in milliseconds. Space becomes free only when parts are deleted or a person raises the limit. */
const FULL_RETRY_AFTER_MS = 60_000

/** Conditions under which uploads are retried. */
export interface UploadDeadline {
  /** Time until which uploads are retried, in server ms. */
  until: number
  /** True to retry without a connection, too. */
  whatever_the_connection?: true
  stopped?: () => boolean
}

/**
 * Uploads parts that are too large for a message to the agent's own bucket. Asks the dispatchers to create a missing bucket. Returns the parts
 * unchanged if they all fit. Throws E013 if the agent may have no bucket, E014 if its bucket is full, and E040 if no dispatcher created one.
 */
export async function uploadLargeParts(
  deps: Deps,
  owner: string,
  { parts, deadline }: { parts: Part[]; deadline: UploadDeadline },
): Promise<Part[]> {
  return fitInMessage(parts) ? parts : uploadWithRetries(deps, deadline, () => deps.bus.parts.upload(owner, parts))
}

/** Uploads all parts, whatever their size. */
export function uploadAllParts(
  deps: Deps,
  owner: string,
  { parts, deadline }: { parts: Part[]; deadline: UploadDeadline },
): Promise<Part[]> {
  return uploadWithRetries(deps, deadline, () => deps.bus.parts.upload(owner, parts, new Set(parts)))
}

/** Retries uploads that the server did not answer while the pass can still use them. */
async function uploadWithRetries(deps: Deps, deadline: UploadDeadline, upload: () => Promise<Part[]>): Promise<Part[]> {
  let connected_at = deps.clock.monotonic()
  for (let tries = 1, refused = 0; ; tries++) {
    try {
      return await upload()
    } catch (error) {
      if (error instanceof PartsFullError) throw bucketFullError(error, await askForBucket(deps))
      if (!(error instanceof BusReadError)) throw error
      if (isRefusal(error)) refused += 1
      if (deps.bus.connected) connected_at = deps.clock.monotonic()
      const lost = deadline.whatever_the_connection ? false : deps.clock.monotonic() - connected_at >= UNREACHABLE_TIMEOUT_MS
      if (refused === MAX_REFUSALS || lost || deps.clock.now() >= deadline.until || deadline.stopped?.()) throw error
      await askForBucket(deps)
      if (tries > 1) await sleep(deps.clock, RETRY_DELAY_MS * Math.min(tries, MAX_REFUSALS))
    }
  }
}

function isRefusal({ reason }: BusReadError): boolean {
  return reason !== 'timeout' && reason !== 'disconnected' && reason !== 'no_responders'
}

/** Asks the dispatchers to create the bucket. Returns the used and maximum bytes if one answers. */
async function askForBucket(deps: Deps): Promise<{ bytes: number; max_bytes?: number | undefined } | undefined> {
  const answer = registerAnswer.safeParse(await deps.bus.ask({ parts_only: true }, { service: 'register' }).catch(() => undefined))
  if (answer.success && !answer.data.ok) throw PassOverError.from(answer.data.error)
  return answer.data?.ok ? answer.data.parts : undefined
}

function bucketFullError(
  { owner, message }: PartsFullError,
  usage: { bytes: number; max_bytes?: number | undefined } | undefined,
): PassOverError {
  const used = usage?.max_bytes === undefined ? '' : `; ${mib(usage.bytes)} of ${mib(usage.max_bytes)} MiB are used`
  const mend = `send smaller parts, or raise the limit: passover agents set ${owner} --parts-bytes <bytes>; parts are deleted when the archive no longer keeps their passes`
  return new PassOverError('E014', `${message}${used}`, { owner, ...usage, mend, retry_after_ms: FULL_RETRY_AFTER_MS })
}

function mib(bytes: number): string {
  return (bytes / 1024 ** 2).toFixed(1)
}

/** Returns true if all parts, stored ones included, would fit into one message. The dispatcher's function counts only the bytes inside a message. */
export function fitInMessage(parts: readonly Part[]): boolean {
  let total = 0
  for (const { size } of parts) {
    if (size > PART_INLINE_BYTES) return false
    total += size
  }
  return total <= PARTS_INLINE_BYTES
}
