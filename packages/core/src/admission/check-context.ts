import type { EffectivePolicy, Part, PassError } from '@passover/schemas'
import { passError } from '../errors.js'

type SizedPart = Pick<Part, 'name' | 'size'>

const HEAVIEST = 5
/** Estimated bytes per token. Exact enough to refuse a far too large context without decoding its parts. */
const BYTES_PER_TOKEN = 4

/** Returns a filter for the parts that the policy lets through: `pass_context` allows the messages, `pass_files` the contents of files. */
export function keeps(policy: Pick<EffectivePolicy, 'pass_context' | 'pass_files'>): (part: { name: string }) => boolean {
  return ({ name }) => (policy.pass_context || name !== 'messages') && (policy.pass_files || !name.startsWith('file:'))
}

export function sizeOf(parts: readonly SizedPart[]): number {
  return parts.reduce((sum, { size }) => sum + size, 0)
}

/** Estimates the number of tokens of a context from its size in bytes. */
export function tokensOf(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN)
}

/** Returns E012 if the parts exceed max_context_size_bytes or the token budget, with the excess and the largest parts. */
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
  const message = `The context has ${size} ${unit}, ${over} more than the ${limit} allowed. Its largest parts (bytes): ${weighs}`
  return passError('E012', message, { ...sizes, heaviest })
}
