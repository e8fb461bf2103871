import type { Random } from '@passover/schemas'

const BYTES = 9

/** Makes nonces that tell one's own steps: of this process by a random beginning, of one delivery by a count. */
export function nonces(random: Random): () => string {
  const start = Buffer.from(random.bytes(BYTES)).toString('base64url')
  let count = 0
  return () => `${start}.${(count++).toString(36)}`
}
