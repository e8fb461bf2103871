import type { Bus } from '@passover/bus'
import { PART_INLINE_BYTES, PARTS_INLINE_BYTES, type Part } from '@passover/schemas'

/** Whether parts travel inside a message (DESIGN §2 Payloads). */
export function fits(parts: Part[]): boolean {
  let total = 0
  for (const part of parts) {
    const bytes = part.data?.byteLength ?? 0
    total += bytes
    if (bytes > PART_INLINE_BYTES || total > PARTS_INLINE_BYTES) return false
  }
  return true
}

/** Moves what is too large into the originator's bucket, which is made when a shell user has none yet. */
export async function stowParts(bus: Bus, originator: string, parts: Part[]): Promise<Part[]> {
  await bus.ensureAgent(originator, { subagent: false, max_attempts: 1, lease_ms: 1_000 })
  return bus.parts.stow(originator, parts)
}
