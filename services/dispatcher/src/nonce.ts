import { makeInstance, type Random } from '@passover/schemas'

/** Makes nonces: unique to this process by its instance, to the attempt by a counter. */
export function nonces(random: Random): () => string {
  const instance = makeInstance(random)
  let made = 0
  return () => `${instance}${(made++).toString(36)}`
}
