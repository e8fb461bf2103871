import { hash } from 'node:crypto'
import canonicalize from 'canonicalize'

/** Returns the RFC 8785 form of a JSON value. Throws on values that JSON cannot represent (lone surrogates, NaN). */
export function canonicalJson(value: unknown): string {
  const text = plain(value, 0) ?? canonicalize(value)
  if (text === undefined) throw new TypeError('not a JSON value')
  return text
}

const MAX_DEPTH = 100
/** Cache of serialised field names: names repeat, values do not. */
const names = new Map<string, string>()
const MAX_NAMES = 512
/** Up to this number, insertion sort is faster than the library's sort. */
const FEW = 16
const MAX_NAME = 40

/**
 * Computes the same for plain values, several times as fast, because it runs for every pass. Returns `undefined` for anything else (a toJSON, a
 * surrogate, a non-JSON value, depth that may be a cycle), which the library handles.
 */
function plain(value: unknown, depth: number): string | undefined {
  switch (typeof value) {
    case 'string':
      return isWellFormed(value) ? JSON.stringify(value) : undefined
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
  for (const key of sortedKeys(record)) {
    const given = record[key]
    if (given === undefined) continue
    const value = plain(given, depth)
    const name = names.get(key) ?? written(key)
    if (value === undefined || name === undefined) return undefined
    text += text.length > 1 ? `,${name}${value}` : `${name}${value}`
  }
  return `${text}}`
}

function sortedKeys(record: object): string[] {
  const keys = Object.keys(record)
  if (keys.length > FEW) return keys.sort()
  for (let at = 1; at < keys.length; at++) {
    const key = keys[at] ?? ''
    let to = at
    for (; to > 0 && (keys[to - 1] ?? '') > key; to--) keys[to] = keys[to - 1] ?? ''
    keys[to] = key
  }
  return keys
}

function written(key: string): string | undefined {
  if (!isWellFormed(key)) return undefined
  const name = `${JSON.stringify(key)}:`
  if (key.length <= MAX_NAME && names.size < MAX_NAMES) names.set(key, name)
  return name
}

/** Node 20 has this function; the type library that the code is compiled against does not. */
function isWellFormed(text: string): boolean {
  return (text as unknown as { isWellFormed(): boolean }).isWellFormed()
}

/** Returns the SHA-256 in lower-case hex. Used as the name of parts, digests and segments. */
export function sha256(data: Uint8Array | string): string {
  return hash('sha256', data, 'hex')
}
