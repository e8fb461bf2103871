import { hash } from 'node:crypto'
import canonicalize from 'canonicalize'

/** The RFC 8785 form of a JSON value. Throws on what JSON cannot say (lone surrogates, NaN). */
export function canonicalJson(value: unknown): string {
  const text = canonicalize(value)
  if (text === undefined) throw new TypeError('not a JSON value')
  return text
}

/** SHA-256 in lower-case hex: names parts, digests and segments. */
export function sha256(data: Uint8Array | string): string {
  return hash('sha256', data, 'hex')
}
