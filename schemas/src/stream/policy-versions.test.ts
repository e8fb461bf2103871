import { expect, it } from 'vitest'
import { policyBody, policyDigest, policyVersion } from './policy-versions.js'

const document = { defaults: { timeout_ms: 5_000, auto_return: true }, pairs: { 'a->b': { enabled: false } } }

it('a document’s digest depends on what it says, not on the order or on what is for editors', () => {
  const turned = { $schema: './x.json', pairs: document.pairs, defaults: { auto_return: true, timeout_ms: 5_000 } }
  expect(policyDigest(turned)).toBe(policyDigest(document))
  expect(policyDigest({ ...document, defaults: { timeout_ms: 5_001, auto_return: true } })).not.toBe(policyDigest(document))
})

it('a version’s document is held to the same schema as a file', () => {
  const body = { v: 1, version: 1, base: 0, document, digest: policyDigest(document), reason: 'because' }
  expect(policyBody.parse(body).document.pairs?.['a->b']).toEqual({ from: 'a', to: 'b', enabled: false })
  expect(policyBody.safeParse({ ...body, document: { defaults: { timeout: 1 } } }).success).toBe(false)
  expect(policyBody.safeParse({ ...body, version: 0 }).success).toBe(false)
  const stored = { version: 1, digest: body.digest, document, by: 'maria', time: 1, sequence: 7 }
  expect(policyVersion.parse(stored)).toMatchObject(stored)
  for (const wrong of [{ by: 'a.b' }, { sequence: 0 }, { document: { pears: {} } }])
    expect(policyVersion.safeParse({ ...stored, ...wrong }).success).toBe(false)
})
