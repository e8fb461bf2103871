import { Chain, decodeIndex, encodeErased, encodeFrame, GENESIS, type ManifestEntry, SegmentDamaged } from '@passover/archive'
import { Subjects } from '@passover/bus'
import { sha256 } from '@passover/schemas'
import { expect, it } from 'vitest'
import { type RedactDeps, redactSegment } from './redact-segment.js'

const subjects = new Subjects()
const KEY = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }
const frames = [5, 6].map((sequence) =>
  encodeFrame({ sequence, time: 1, subject: subjects.event(KEY, 'cancel', 'alice'), headers: '', data: new Uint8Array([1]) }),
)
const [gone, kept] = frames as [(typeof frames)[0], (typeof frames)[0]]
const digests = new Map([[5, Buffer.from(gone.digest).toString('latin1')]])
const WHOLE = Buffer.concat([gone.bytes, kept.bytes])
const ERASED = Buffer.concat([encodeErased(5, gone.digest), kept.bytes])

function entryOf(object: string, bytes: Uint8Array): ManifestEntry {
  const chain = new Chain(GENESIS)
  for (const { digest } of frames) chain.add(digest)
  const chained = { chain_before: Buffer.from(GENESIS).toString('hex'), chain_after: chain.end(), count: 2 }
  return { k: 0, object, index: `${object}.index`, compression: 'none', sha256: sha256(bytes), ...chained } as ManifestEntry
}

/** A segment of two entries whose manifest entry reads so one time after the other, and what is done about it. */
function sealed(entries: ManifestEntry[], stored: Record<string, Uint8Array>) {
  const done: string[] = []
  const put = new Map<string, Uint8Array>()
  const standing = async () => {
    const entry = (entries.length > 1 ? entries.shift() : entries[0]) as ManifestEntry
    return { entry, revision: entry.object === 'old' ? 1 : 2 }
  }
  const deps = {
    bus: { subjects },
    manifest: { standing, replace: async () => done.push('replace') > 0 },
    objects: {
      get: async (name: string) => stored[name],
      put: async (name: string, bytes: Uint8Array) => void put.set(name.split('.').at(-1) ?? '', bytes),
      delete: async (name: string, how?: string) => void done.push(`delete ${name} ${how}`),
    },
    archive: { renew: async (k: number) => void done.push(`renew ${k}`) },
    random: { bytes: (n: number) => new Uint8Array(n) },
    instance: 'one',
  } as unknown as RedactDeps
  return { done, put, rewritten: () => redactSegment(deps, 0, digests) }
}

it('of a segment that it writes anew the former objects are overwritten, and what it refers to is read again', async () => {
  const { done, put, rewritten } = sealed([entryOf('old', WHOLE)], { old: WHOLE })
  expect(await rewritten()).toBe(true)
  expect(done).toEqual(['replace', 'delete old overwrite', 'delete old.index overwrite', 'renew 0'])
  expect(put.get('frames')).toEqual(ERASED)
  expect(decodeIndex(put.get('index') ?? new Uint8Array())).toMatchObject([{ key: KEY, sequences: [6] }])
})

// Fails where it takes what it knew of it: a part that the segment referred to before stays then for good.
it('one that another audit wrote is read again, too', async () => {
  const { done, rewritten } = sealed([entryOf('anew', ERASED)], { anew: ERASED })
  expect(await rewritten()).toBe(true)
  expect(done).toEqual(['renew 0'])
})

// Fails where what is gone since the other one wrote it anew is taken for lost.
it('one that another audit writes anew while it is read is read again; one that is lost is missing', async () => {
  const { done, rewritten } = sealed([entryOf('old', WHOLE), entryOf('anew', ERASED)], { anew: ERASED })
  expect(await rewritten()).toBe(true)
  expect(done).toEqual(['renew 0'])
  const lost = sealed([entryOf('old', WHOLE)], {})
  await expect(lost.rewritten()).rejects.toThrow('object old is missing')
})

// Fails where it goes on: the prints of what it writes would hide which entry was changed.
it('nothing is made of entries that are not what the chain says', async () => {
  const entry = { ...entryOf('old', WHOLE), chain_after: '0'.repeat(64) }
  const { done, rewritten } = sealed([entry], { old: WHOLE })
  await expect(rewritten()).rejects.toThrow(SegmentDamaged)
  expect(done).toEqual([])
})
