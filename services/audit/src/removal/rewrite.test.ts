import { encodeErased, encodeFrame, encodeIndex, type ManifestEntry, SegmentDamaged } from '@passover/archive'
import { sha256 } from '@passover/schemas'
import { expect, it } from 'vitest'
import { type RewriteDeps, rewriteSegment } from './rewrite.js'

const frame = encodeFrame({ sequence: 5, time: 1, subject: 'acknowledged.alice', headers: '', data: new Uint8Array([1]) })
const digests = new Map([[5, Buffer.from(frame.digest).toString('latin1')]])
const index = encodeIndex(0, [], { parts: [] })

/** A segment of one entry, and what is done about it. */
function sealed(bytes: Uint8Array, stored: Uint8Array | undefined, more: Partial<ManifestEntry> = {}) {
  const entry = { k: 0, object: 'frames', index: 'index', compression: 'none', sha256: sha256(bytes), index_sha256: sha256(index), ...more }
  const done: string[] = []
  const deps = {
    manifest: { standing: async () => ({ entry, revision: 1 }), replace: async () => done.push('replace') > 0 },
    objects: {
      get: async (name: string) => (name === 'frames' ? bytes : stored),
      put: async () => undefined,
      delete: async (name: string, how?: string) => void done.push(`delete ${name} ${how}`),
    },
    archive: { renew: async (k: number) => void done.push(`renew ${k}`) },
    random: { bytes: (n: number) => new Uint8Array(n) },
    instance: 'one',
  } as unknown as RewriteDeps
  return { done, rewritten: () => rewriteSegment(deps, 0, digests) }
}

it('of a segment that it writes anew the former objects are overwritten, and what it refers to is read again', async () => {
  const { done, rewritten } = sealed(frame.bytes, index)
  expect(await rewritten()).toBe(true)
  expect(done).toEqual(['replace', 'delete frames overwrite', 'delete index overwrite', 'renew 0'])
})

// Fails where it takes what it knew of it: a part that the segment referred to before stays then for good.
it('one that another audit wrote is read again, too', async () => {
  const { done, rewritten } = sealed(encodeErased(5, frame.digest), index)
  expect(await rewritten()).toBe(true)
  expect(done).toEqual(['renew 0'])
})

// Fails where it goes on: what it makes of that would stand there with a hash as if it were what was sealed.
it('is not made of an index that is missing, or is not the sealed one', async () => {
  for (const [stored, why] of [
    [undefined, 'index index is missing: passover audit rebuild mends it'],
    [encodeIndex(0, [], { parts: ['alice/other'] }), 'index index is not what was sealed'],
  ] as const) {
    const { done, rewritten } = sealed(frame.bytes, stored)
    await expect(rewritten()).rejects.toThrow(SegmentDamaged)
    await expect(rewritten()).rejects.toThrow(why)
    expect(done).toEqual([])
  }
  // One of an earlier version has no hash.
  expect(await sealed(frame.bytes, index, { index_sha256: undefined }).rewritten()).toBe(true)
})
