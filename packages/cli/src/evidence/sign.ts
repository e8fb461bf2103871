import { createHash, createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import { Chain, encodeFrame, segmentOf } from '@passover/archive'
import { canonicalJson, issueTexts, keyText, sha256 } from '@passover/schemas'
import type { Evidence } from '../verify/collect-pass.js'
import { bundleEntry, type EvidenceBundle, evidenceBundle, type Seal, unbundleEntry } from './bundle.js'
import { countMembersInText, countMembersOfValue } from './duplicate-keys.js'

export interface Signer {
  key: KeyObject
  made_by: string
  made_at: number
}

/** Seals evidence. The signature covers a separate digest of each part, so that verification can name the part that was changed. */
export function sealEvidence(evidence: Evidence, { key, made_by, made_at }: Signer): EvidenceBundle {
  const record = plain(evidence.record)
  const seal: Seal = {
    format: 'passover-evidence',
    v: 1,
    made_at,
    made_by,
    pass: evidence.pass,
    id_window_ms: evidence.id_window_ms,
    prefix: evidence.subjects.prefix.replace(/\.$/, ''),
    entries: evidence.entries.map((event) => ({ sequence: event.sequence, digest: hexOf(encodeFrame(event).digest) })),
    segments: evidence.segments.map(({ entry: { k, chain_before, chain_after }, digests }) => ({
      k,
      chain_before,
      chain_after,
      digests: sha256(digests),
    })),
    ...(evidence.head ? { head: evidence.head } : {}),
    record: sha256(canonicalJson(record)),
    parts: [...evidence.parts.keys()],
    ...(evidence.left_out.length > 0 ? { left_out: [...evidence.left_out] } : {}),
    public_key: publicKeyPem(key),
  }
  return {
    seal,
    signature: sign(null, Buffer.from(canonicalJson(seal)), key).toString('base64'),
    entries: evidence.entries.map(bundleEntry),
    segments: evidence.segments.map(({ entry, digests }) => ({ k: entry.k, digests: Buffer.from(digests).toString('base64') })),
    record,
    parts: [...evidence.parts].map(([hash, bytes]) => ({ hash, data: Buffer.from(bytes).toString('base64') })),
  }
}

function plain(value: unknown): unknown {
  return value === undefined ? null : JSON.parse(JSON.stringify(value))
}

/** Returns the public key in the PEM form that verification takes. */
export function publicKeyPem(key: KeyObject): string {
  return createPublicKey(key as never)
    .export({ type: 'spki', format: 'pem' })
    .toString()
}

/** Returns the fingerprint of a public key: SHA-256 of its DER form. */
export function keyFingerprint(pem: string): string {
  const der = createPublicKey(pem).export({ type: 'spki', format: 'der' })
  return `SHA256:${createHash('sha256').update(der).digest('base64').replace(/=+$/, '')}`
}

export type OpenEvidenceResult = { ok: true; bundle: EvidenceBundle; fingerprint: string } | { ok: false; what: string }

/**
 * Checks a bundle against its signature and names the first part that differs from what was signed.
 *
 * @param trusted - the expected key, as PEM or fingerprint
 */
export function openEvidence(text: string, trusted?: string): OpenEvidenceResult {
  const bundle = parsed(text)
  if (typeof bundle === 'string') return { ok: false, what: bundle }
  const { seal, signature } = bundle
  const fingerprint = safeFingerprint(seal.public_key)
  if (fingerprint === undefined) return { ok: false, what: 'its public key is not an Ed25519 key' }
  if (trusted !== undefined && fingerprint !== (trusted.startsWith('SHA256:') ? trusted : safeFingerprint(trusted))) {
    return { ok: false, what: `it is signed with another key: ${fingerprint}` }
  }
  if (!verify(null, Buffer.from(canonicalJson(seal)), createPublicKey(seal.public_key), Buffer.from(signature, 'base64'))) {
    return { ok: false, what: 'its seal was changed: the signature does not match' }
  }
  const what = entriesFault(bundle) ?? segmentsFault(bundle) ?? partsFault(bundle) ?? recordFault(bundle)
  return what === undefined ? { ok: true, bundle, fingerprint } : { ok: false, what }
}

/**
 * Compares the record with its digest. A number such as 1e999 is valid JSON but parses as Infinity, which has no canonical form, so no
 * sealed record contains one.
 */
function recordFault({ record, seal }: EvidenceBundle): string | undefined {
  try {
    if (sha256(canonicalJson(record)) === seal.record) return undefined
  } catch {
    // Falls through: a record without a canonical form was not sealed.
  }
  return 'the record was changed'
}

function parsed(text: string): EvidenceBundle | string {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return `it is not JSON: ${error instanceof Error ? error.message : String(error)}`
  }
  // JSON.parse keeps only the last of two members with the same name, while a human reader may see the first.
  if (countMembersInText(text) !== countMembersOfValue(value)) return 'it is not an evidence bundle: a name occurs twice in it'
  const read = evidenceBundle.safeParse(value)
  if (read.success) return read.data
  return `it is not an evidence bundle: ${issueTexts(read.error.issues, 1, 'the whole').join('')}`
}

/** Returns the fingerprint of an Ed25519 key, or `undefined` for any other key; bundles are signed with Ed25519 only. */
function safeFingerprint(pem: string): string | undefined {
  try {
    return createPublicKey(pem).asymmetricKeyType === 'ed25519' ? keyFingerprint(pem) : undefined
  } catch {
    return undefined
  }
}

function entriesFault({ seal, entries }: EvidenceBundle): string | undefined {
  const signed = new Map(seal.entries.map(({ sequence, digest }) => [sequence, digest]))
  let last = 0
  for (const entry of entries) {
    const { sequence, subject } = entry
    const named = `entry ${sequence} (${subject})`
    const digest = signed.get(sequence)
    if (digest === undefined) return `${named} was added`
    if (sequence <= last) return `${named} is ${sequence === last ? 'duplicated' : 'out of order'}`
    if (hexOf(encodeFrame(unbundleEntry(entry)).digest) !== digest) return `${named} was changed`
    last = sequence
  }
  const present = new Set(entries.map(({ sequence }) => sequence))
  const missing = seal.entries.find(({ sequence }) => !present.has(sequence))
  return missing && `entry ${missing.sequence} is missing`
}

const DIGEST_BYTES = 32

/** Checks that the digests of each segment produce its chain value and include those of its entries. */
function segmentsFault({ seal, segments, entries }: EvidenceBundle): string | undefined {
  for (const { k, chain_before, chain_after, digests } of seal.segments) {
    const found = segments.find((segment) => segment.k === k)
    if (!found) return `the digests of segment ${k} are missing`
    const bytes = Buffer.from(found.digests, 'base64')
    if (sha256(bytes) !== digests) return `the digests of segment ${k} were changed`
    const chain = new Chain(Buffer.from(chain_before, 'hex'))
    chain.add(bytes)
    if (chain.end() !== chain_after) return `the digests of segment ${k} do not match its chain value`
    const held = new Set<string>()
    for (let at = 0; at < bytes.length; at += DIGEST_BYTES) held.add(bytes.toString('hex', at, at + DIGEST_BYTES))
    for (const { sequence, digest } of seal.entries) {
      if (segmentOf(sequence) === k && !held.has(digest)) return `entry ${sequence} is not in segment ${k} of the archive`
    }
  }
  const sealed = new Set(seal.segments.map(({ k }) => k))
  const extra = segments.find(({ k }) => !sealed.delete(k))
  if (extra) return `segment ${extra.k} was added`
  return entries.length === 0 ? 'it contains no entries' : undefined
}

/** Checks the bytes of the parts against their hashes, and the set of hashes against the seal. */
function partsFault({ seal, parts = [] }: EvidenceBundle): string | undefined {
  const sealed = new Set(seal.parts)
  for (const { hash, data } of parts) {
    if (!sealed.delete(hash)) return `part ${hash.slice(0, 12)}… was added`
    if (sha256(Buffer.from(data, 'base64')) !== hash) return `part ${hash.slice(0, 12)}… was changed`
  }
  const [missing] = sealed
  return missing === undefined ? undefined : `part ${missing.slice(0, 12)}… is missing`
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}

/** Returns a one-line title of a bundle. */
export function bundleTitle({ seal }: EvidenceBundle): string {
  return `${keyText(seal.pass)}, collected by ${seal.made_by} at ${new Date(seal.made_at).toISOString()}`
}
