import { decode, encode, type PublishMessage } from '@passover/bus'

/**
 * How a request leaves its sender so that no dispatcher of this version can read it. `nameless` and `another` are answered under a name of
 * their own: the one has no id, the other's body names another subagent.
 */
export const SPOILT = ['newer', 'older', 'cut', 'form', 'hash', 'digest', 'nameless', 'another'] as const
export type Spoilt = (typeof SPOILT)[number]

/** Whether the refusal has the id that its caller waits for. */
export function isNamed(how: Spoilt): boolean {
  return how !== 'nameless' && how !== 'another'
}

interface Envelope {
  v: number
  request: Record<string, unknown>
  parts: { hash: string }[]
}

/** The same bytes each time, as those of one sender are. */
export function spoil(message: PublishMessage, how: Spoilt): PublishMessage {
  const { headers = {}, data = new Uint8Array(0) } = message
  const half = data.subarray(0, data.length >> 1)
  if (how === 'cut') return { ...message, data: half }
  if (how === 'digest') return { ...message, headers: { ...headers, 'Passover-Digest': 'f'.repeat(64) } }
  if (how === 'nameless') {
    const { 'Passover-Id': _, ...rest } = headers
    return { ...message, headers: rest, data: half }
  }
  const decoded = decode(data, 'msgpack')
  if (!decoded.ok) throw new Error('only what can be read is spoilt')
  return { ...message, data: encode(spoiltBody(decoded.value as Envelope, how), 'msgpack') }
}

function spoiltBody(body: Envelope, how: Exclude<Spoilt, 'cut' | 'digest' | 'nameless'>): unknown {
  const { request, parts } = body
  switch (how) {
    case 'newer':
      return { ...body, v: 2, request: { ...request, timeout: 'PT6S' } }
    case 'older':
      return { ...body, v: 0 }
    case 'form':
      return { ...body, request: { ...request, timeout_ms: 'soon' } }
    case 'hash':
      return { ...body, parts: parts.map((part) => ({ ...part, hash: 'f'.repeat(64) })) }
    case 'another':
      return { ...body, request: { ...request, subagent_id: 'nobody' } }
  }
}
