import { MAX_ACKNOWLEDGED } from '@passover/schemas'
import { isBody } from './output-codec.js'

/** Sequences, ascending and each once, as `acknowledged.<originator>` carries them: at most as many as fit one message. */
export function packSequences(ascending: readonly number[]): number[] {
  const packed: number[] = []
  let last = 0
  for (const sequence of ascending) {
    if (sequence > last) packed.push(sequence - last)
    last = sequence
  }
  return packed
}

/**
 * The sequences that a decoded body names. Whatever is no such list, stands beyond one message's bound, or at or after the message
 * itself (which can only be a guess at what will be stored) says nothing.
 */
export function sequencesIn(body: unknown, before: number): number[] {
  const returns = isBody(body) ? body.returns : undefined
  if (!Array.isArray(returns) || returns.length > MAX_ACKNOWLEDGED) return []
  const named: number[] = []
  let last = 0
  for (const step of returns) {
    if (!Number.isSafeInteger(step) || step <= 0) return []
    last += step
    if (last >= before) break
    named.push(last)
  }
  return named
}
