import { MAX_ACKNOWLEDGED } from '@passover/schemas'
import { isBody } from './output-codec.js'

/** Encodes ascending sequences, each once, for `acknowledged.<originator>`. There must be no more than fit into one message. */
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
 * Returns the sequences that a decoded body names. Ignores a body that is not a valid list or exceeds the limit of a message, and sequences at or
 * after the message itself, which can only be guesses.
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
