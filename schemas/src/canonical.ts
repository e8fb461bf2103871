import { hash } from 'node:crypto'
import canonicalize from 'canonicalize'

/** The RFC 8785 form of a JSON value. Throws on what JSON cannot say (lone surrogates, NaN). */
export function canonicalJson(value: unknown): string {
  const text = plain(value, 0) ?? canonicalize(value)
  if (text === undefined) throw new TypeError('not a JSON value')
  return text
}

const MAX_DEPTH = 100
const LONE_SURROGATE = /\p{Surrogate}/u

/**
 * The same for plain values, several times as fast: it stands in the way of every pass. What is anything but plain (a toJSON, a surrogate,
 * no JSON, depth that may be a circle) is undefined here, and left whole to the library.
 */
function plain(value: unknown, depth: number): string | undefined {
  switch (typeof value) {
    case 'string':
      return LONE_SURROGATE.test(value) ? undefined : JSON.stringify(value)
    case 'number':
      return Number.isFinite(value) ? JSON.stringify(value) : undefined
    case 'boolean':
      return value ? 'true' : 'false'
    case 'object':
      if (value === null) return 'null'
      if (depth > MAX_DEPTH) return undefined
      return Array.isArray(value) ? plainList(value, depth + 1) : plainRecord(value as Record<string, unknown>, depth + 1)
    default:
      return undefined
  }
}

function plainList(values: unknown[], depth: number): string | undefined {
  let text = '['
  for (let at = 0; at < values.length; at++) {
    const value = plain(values[at], depth)
    if (value === undefined) return undefined
    text += at === 0 ? value : `,${value}`
  }
  return `${text}]`
}

function plainRecord(record: Record<string, unknown>, depth: number): string | undefined {
  if ('toJSON' in record) return undefined
  let text = '{'
  for (const key of Object.keys(record).sort()) {
    const given = record[key]
    if (given === undefined) continue
    const value = plain(given, depth)
    if (value === undefined || LONE_SURROGATE.test(key)) return undefined
    text += text.length > 1 ? `,${JSON.stringify(key)}:${value}` : `${JSON.stringify(key)}:${value}`
  }
  return `${text}}`
}

/** SHA-256 in lower-case hex: names parts, digests and segments. */
export function sha256(data: Uint8Array | string): string {
  return hash('sha256', data, 'hex')
}
