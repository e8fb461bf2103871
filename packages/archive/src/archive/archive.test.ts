import { BusReadError, encode, ObjectError, type ObjectStore, readHeaders, type StoredMessage, Subjects } from '@passover/bus'
import { type Fact, HEADER, type PassKey, sha256 } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { eventOf } from '../segment/buffer.js'
import { encodeFrame, SEGMENT_SIZE } from '../segment/format.js'
import { IndexBuilder } from '../segment/pass-index.js'
import { Archive, EARLY_MESSAGE_MS, withIndexes } from './archive.js'
import type { Manifest, ManifestEntry } from './manifest.js'

const KEY: PassKey = { originator: 'alice', subagent: 'scout', id: 'given-id-1' }
const T0 = 1_800_000_000_000
const subjects = new Subjects()

interface Message {
  stored: StoredMessage
  fact: Fact
}

function message(sequence: number, subject: string, lines = ''): Message {
  const headers = readHeaders(`NATS/1.0\r\n${lines}\r\n`)
  const stored = { sequence, time: T0 + sequence, subject, headers, data: new Uint8Array() }
  return { stored, fact: subjects.toFact(stored) }
}

/** An archive of so many segments, of which most say nothing of the pass. */
function archiveOf(newest: number, messages: Message[], mostSearched?: number) {
  const objects = new Map<string, Uint8Array>()
  const read: string[] = []
  const entries = Array.from({ length: newest + 1 }, (_, k) => {
    const inside = messages.filter(({ stored }) => Math.floor(stored.sequence / SEGMENT_SIZE) === k)
    const index = new IndexBuilder()
    for (const { fact } of inside) index.add(fact, undefined)
    objects.set(`${k}.index`, index.encode(k))
    const raw = Buffer.concat(inside.map(({ stored }) => encodeFrame(eventOf(stored)).bytes))
    objects.set(`${k}.frames`, raw)
    const last_time = T0 + (k + 1) * SEGMENT_SIZE
    return { k, object: `${k}.frames`, index: `${k}.index`, compression: 'none', sha256: sha256(raw), last_time } as ManifestEntry
  })
  const entry = async (k: number) => entries[k] && ({ ...entries[k] } as ManifestEntry)
  const standing = async (k: number) => entries[k] && { entry: entries[k], revision: 1 }
  const manifest = { newest: async () => entries.at(-1), all: async () => entries, entry, standing }
  const store = {
    get: async (name: string) => {
      read.push(name)
      return objects.get(name)
    },
  }
  const archive = new Archive(manifest as unknown as Manifest, store as unknown as ObjectStore, mostSearched)
  return { archive, read, objects, store, entries }
}

const requestIn = (stored: StoredMessage) => {
  const fact = subjects.toFact(stored)
  return fact.type === 'step' ? fact.request : undefined
}

describe('Archive.sequencesOf', () => {
  const work = message(10 * SEGMENT_SIZE + 5, subjects.work(KEY, 'medium'), `${HEADER.request}: ${8 * SEGMENT_SIZE}\r\n`)
  const back = message(50 * SEGMENT_SIZE + 7, subjects.return(KEY, KEY.subagent))

  it('finds a pass in segments far apart, and looks no further down than what may be older than its request', async () => {
    const later = message(30 * SEGMENT_SIZE + 5, subjects.work(KEY, 'medium'), `${HEADER.request}: ${28 * SEGMENT_SIZE}\r\n`)
    const { archive, read } = archiveOf(55, [later, back])
    expect(await archive.sequencesOf(KEY, requestIn)).toEqual([later.stored.sequence, back.stored.sequence])
    const deepest = Number(
      read
        .filter((name) => name.endsWith('.index'))
        .at(-1)
        ?.split('.')[0],
    )
    expect(deepest).toBe(Math.floor((30 * SEGMENT_SIZE - EARLY_MESSAGE_MS) / SEGMENT_SIZE) - 1)
  })

  // Found by an hour of chaos: a cancel was stored while its request was being sent again.
  it('finds what is older than the request that its steps name', async () => {
    const cancel = message(7 * SEGMENT_SIZE, subjects.event(KEY, 'cancel', KEY.originator))
    const { archive } = archiveOf(55, [cancel, work, back])
    expect(await archive.sequencesOf(KEY, requestIn)).toEqual([cancel.stored.sequence, work.stored.sequence, back.stored.sequence])
  })

  it('looks no further down than the time in the id', async () => {
    const at = T0 + 50 * SEGMENT_SIZE + 3_600_000
    const id = `0abcdefg${at.toString(36).padStart(9, '0')}_aaaaaaaaaaaaaa`
    const { archive, read } = archiveOf(55, [work, back])
    expect(await archive.sequencesOf({ ...KEY, id }, requestIn)).toEqual([])
    expect(read.at(-1)).toBe('48.index')
  })
})

describe('until all indexes are read', () => {
  const unread = 'old parts of the archive are still being loaded: the indexes of 0 of 6 segments are read'

  it('a search that waits finds what is in the others', async () => {
    const { archive } = archiveOf(5, [message(5, subjects.work(KEY, 'medium'))], 2)
    await expect(archive.keysOf(KEY.id)).rejects.toThrow(unread)
    expect(await withIndexes(archive, () => archive.keysOf(KEY.id))).toEqual([KEY])
  })

  it('a pass is known at once if the searched segments reach back to its request or to the time in its id', async () => {
    const work = message(5 * SEGMENT_SIZE + 5, subjects.work(KEY, 'medium'), `${HEADER.request}: ${5 * SEGMENT_SIZE + 4}\r\n`)
    const { archive, entries } = archiveOf(5, [work], 2)
    Object.assign(entries[4] as ManifestEntry, { last_time: work.stored.time - EARLY_MESSAGE_MS - 1 })
    expect(await archive.sequencesOf(KEY, requestIn)).toEqual([work.stored.sequence])
    const id = `0abcdefg${(T0 + 9 * SEGMENT_SIZE + 3_600_000).toString(36).padStart(9, '0')}_aaaaaaaaaaaaaa`
    expect([await archive.keysOf(id), await archive.sequencesOf({ ...KEY, id })]).toEqual([[], []])
  })

  it('a segment without messages does not end a search', async () => {
    const { archive, entries } = archiveOf(5, [], 2)
    for (const k of [4, 5]) Object.assign(entries[k] as ManifestEntry, { last_time: 0 })
    const id = `0abcdefg${T0.toString(36).padStart(9, '0')}_aaaaaaaaaaaaaa`
    await expect(archive.keysOf(id)).rejects.toThrow(unread)
    await expect(archive.sequencesOf({ ...KEY, id })).rejects.toThrow(unread)
  })
})

// Fails where a first step that is archived is taken for none: what is stored later about its pass would be told of no pass.
it('a pass may begin where its first step is, and wherever an index does not say so', async () => {
  const guarded = [`Nats-Expected-Last-Subject-Sequence: 0`, `Nats-Expected-Last-Subject-Sequence-Subject: ${subjects.journal(KEY)}`]
  const first = message(5, subjects.work(KEY, 'medium'), guarded.map((line) => `${line}\r\n`).join(''))
  const late = message(SEGMENT_SIZE + 7, subjects.event(KEY, 'late', KEY.subagent))
  const mayBegin = async (messages: Message[], change: (objects: Map<string, Uint8Array>) => void = () => undefined) => {
    const { archive, objects } = archiveOf(3, messages)
    change(objects)
    const before = await archive.mayBegin(KEY)
    await archive.finder.prepare()
    return [before, await archive.mayBegin(KEY)]
  }
  expect(await mayBegin([first, late])).toEqual([true, true])
  // Until all indexes are read, nobody knows.
  expect(await mayBegin([late])).toEqual([true, false])
  expect(await mayBegin([late], (objects) => objects.set('2.index', new Uint8Array([0xc1])))).toEqual([true, true])
  const passes = [[KEY.originator, KEY.subagent, KEY.id, null, [late.stored.sequence]]]
  expect(await mayBegin([late], (objects) => objects.set('1.index', encode({ v: 1, k: 1, passes })))).toEqual([true, true])
})

describe('a damaged index', () => {
  const work = message(5, subjects.work(KEY, 'medium'))

  it('keeps nobody from finding an id elsewhere, nor from not finding it, but is not taken for all there is of a pass', async () => {
    const { archive, objects } = archiveOf(3, [work])
    objects.set('3.index', new Uint8Array([0xc1]))
    expect([await archive.keysOf(KEY.id), await archive.keysOf('given-id-9')]).toEqual([[KEY], []])
    await expect(archive.sequencesOf(KEY)).rejects.toThrow('an index cannot be read')
    const later = `0abcdefg${(T0 + 9 * SEGMENT_SIZE + 3_600_000).toString(36).padStart(9, '0')}_aaaaaaaaaaaaaa`
    expect(await archive.sequencesOf({ ...KEY, id: later })).toEqual([])
  })

  it('is also one whose object lost a part', async () => {
    const { archive, store } = archiveOf(3, [work])
    const { get } = store
    store.get = async (name) => {
      if (name === '3.index') throw new ObjectError('chunk 1 of 1 is not there')
      return get(name)
    }
    expect(await archive.keysOf(KEY.id)).toEqual([KEY])
  })

  it('is also one that is lost; made anew, it is found by, and no longer looked through for each id', async () => {
    const { archive, objects, read } = archiveOf(3, [work])
    const index = objects.get('3.index') as Uint8Array
    objects.delete('3.index')
    await archive.finder.prepare()
    expect(archive.finder.damaged).toEqual([3])
    await expect(archive.sequencesOf(KEY)).rejects.toThrow('object 3.index is missing')
    objects.set('3.index', index)
    expect(await archive.sequencesOf(KEY)).toEqual([5])
    expect(archive.finder.damaged).toEqual([])
    read.length = 0
    expect(await archive.sequencesOf({ ...KEY, id: 'given-id-9' })).toEqual([])
    expect(read).toEqual([])
  })

  it('is none where the segment was removed, or written anew, in that moment', async () => {
    for (const [now, passes] of [
      [{ removed: { why: 'retention' } }, 0],
      [{ index: 'other.index' }, 1],
    ] as const) {
      const { archive, objects, entries, store } = archiveOf(1, [work])
      objects.set('other.index', objects.get('0.index') as Uint8Array)
      const { get } = store
      store.get = async (name) => {
        if (name !== '0.index') return get(name)
        Object.assign(entries[0] as ManifestEntry, now)
        return undefined
      }
      expect(await archive.passesIn(0)).toHaveLength(passes)
    }
  })

  it('is not what was not answered', async () => {
    const { archive, store } = archiveOf(3, [work])
    store.get = async () => {
      throw new BusReadError('nobody answers', 'timeout')
    }
    await expect(archive.keysOf(KEY.id)).rejects.toThrow(BusReadError)
  })
})

// Fails where the newest segments are taken for all: a legal hold, the request of an old pass, or the pass itself would be missed.
it('what the newest segments do not hold is not known until all indexes are read', async () => {
  const cancel = message(1, subjects.event(KEY, 'cancel', KEY.originator))
  const work = message(512 * SEGMENT_SIZE + 1, subjects.work(KEY, 'medium'))
  const asks = (archive: Archive, key = KEY) => [archive.sequencesOf(key), archive.sequencesAfter(key, -1), archive.keysOf(key.id)]
  const answers = async (asked: Promise<unknown>[]) =>
    (await Promise.allSettled(asked)).map((one) => (one.status === 'rejected' ? one.reason.name : one.value))
  const both = [1, work.stored.sequence]
  expect(await answers(asks(archiveOf(511, [cancel]).archive))).toEqual([[1], [1], [KEY]])
  const { archive } = archiveOf(512, [cancel, work])
  const none = { ...KEY, id: 'given-id-2' }
  // The newest segment answers which passes have an id, not which messages a pass has.
  expect(await answers(asks(archive))).toEqual(['IndexesUnread', 'IndexesUnread', [KEY]])
  expect(await answers(asks(archive, none))).toEqual(['IndexesUnread', 'IndexesUnread', 'IndexesUnread'])
  expect(await archive.sequencesAfter(KEY, 0)).toEqual([work.stored.sequence])
  await archive.finder.prepare()
  expect(await answers(asks(archive))).toEqual([both, both.toReversed(), [KEY]])
  expect(await answers(asks(archive, none))).toEqual([[], [], []])
})
