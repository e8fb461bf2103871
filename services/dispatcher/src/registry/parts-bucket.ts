import { NoStorageError, PartsFullError, PartTakenError } from '@passover/bus'
import { passError } from '@passover/core'
import { PART_INLINE_BYTES, PARTS_INLINE_BYTES, type Part, type PassError } from '@passover/schemas'
import type { BaseContext } from '../runtime/base-context.js'
import type { Registry } from './registry.js'

/**
 * Returns true if the parts are small enough to be sent inside a message (docs/architecture/protocol.md#payloads). Parts that are stored already count
 * as 0 bytes.
 */
export function fitInMessage(parts: Part[]): boolean {
  let total = 0
  for (const part of parts) {
    const bytes = part.data?.byteLength ?? 0
    total += bytes
    if (bytes > PART_INLINE_BYTES || total > PARTS_INLINE_BYTES) return false
  }
  return true
}

/**
 * Moves large parts into the originator's bucket. Creates the bucket, with the configured limit, for a client that publishes requests without the
 * SDK.
 */
export async function uploadParts({ deps, options, registry }: UploadContext, originator: string, parts: Part[]): Promise<Part[]> {
  const parts_bytes = registry.get(originator)?.parts_bytes ?? options.parts_bytes
  await deps.bus.ensureAgent(originator, { subagent: false, max_attempts: 1, lease_ms: 1_000, parts_bytes })
  return deps.bus.parts.upload(originator, parts)
}

interface UploadContext extends Pick<BaseContext, 'deps' | 'options'> {
  registry: Registry
}

const FULL_RETRY_AFTER_MS = 60_000

/**
 * Returns E014 if parts were not stored because the bucket is full or could not be created, E005 if the originator stored other bytes under the same
 * name, and `undefined` for any other error.
 */
export function partsRefusal(error: unknown): PassError | undefined {
  if (error instanceof PartTakenError) return passError('E005', error.message)
  if (!(error instanceof PartsFullError || error instanceof NoStorageError)) return undefined
  return passError('E014', error.message, { retry_after_ms: FULL_RETRY_AFTER_MS })
}
