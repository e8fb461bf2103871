import type { EffectivePolicy, Part, PassError } from '@passover/schemas'
import { passError } from '../errors.js'

type SizedPart = Pick<Part, 'name' | 'size'>

const HEAVIEST = 5
/** A token is taken for this many bytes: enough to refuse what is far too much, without decoding any part. */
const BYTES_PER_TOKEN = 4

/** Which parts policy lets through: `pass_context` the messages, `pass_files` the files' contents. */
export function keeps(policy: Pick<EffectivePolicy, 'pass_context' | 'pass_files'>): (part: { name: string }) => boolean {
  return ({ name }) => (policy.pass_context || name !== 'messages') && (policy.pass_files || !name.startsWith('file:'))
}

export function sizeOf(parts: readonly SizedPart[]): number {
  return parts.reduce((sum, { size }) => sum + size, 0)
}

/** Estimate of a context's tokens. */
export function tokensOf(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN)
}

/** E012 when what travels is over max_context_size_bytes or the token budget: by how much, and what weighs most. */
export function contextFault(parts: readonly SizedPart[], policy: EffectivePolicy, tokens: number | undefined): PassError | undefined {
  const size_bytes = sizeOf(parts)
  const limit_bytes = policy.max_context_size_bytes
  if (size_bytes > limit_bytes) return overflow(parts, { size_bytes, limit_bytes, over_bytes: size_bytes - limit_bytes }, 'bytes')
  const size_tokens = tokensOf(size_bytes)
  if (tokens === undefined || size_tokens <= tokens) return undefined
  return overflow(parts, { size_tokens, limit_tokens: tokens, over_tokens: size_tokens - tokens }, 'tokens')
}

function overflow(parts: readonly SizedPart[], sizes: Record<string, number>, unit: 'bytes' | 'tokens'): PassError {
  const heaviest = [...parts]
    .sort((a, b) => b.size - a.size)
    .slice(0, HEAVIEST)
    .map(({ name, size }) => ({ name, size_bytes: size }))
  const weighs = heaviest.map(({ name, size_bytes }) => `${name} ${size_bytes}`).join(', ')
  const [size, limit, over] = ['size', 'limit', 'over'].map((which) => sizes[`${which}_${unit}`])
  const message = `The context has ${size} ${unit}, ${over} more than the ${limit} allowed. What weighs most (bytes): ${weighs}`
  return passError('E012', message, { ...sizes, heaviest })
}
