import { Subjects } from '@passover/bus'
import { expect, it } from 'vitest'
import { type PadDeps, padSegment } from './pad-segment.js'

interface Stream {
  requests?: 'open' | 'closed'
  first?: number
  last?: number
  sealed?: number
  room?: number
}

/** A stream that takes no requests and has not quite filled its second segment. */
async function made({ requests = 'closed', first = 1, last = 8_000, sealed = 0, room = 10_000 }: Stream, next = 1): Promise<number[]> {
  const subjects: string[] = []
  const bus = {
    subjects: new Subjects(),
    usage: async () => ({ messages: 0, bytes: 0, requests }),
    bounds: async () => ({ first, last }),
    publish: async ({ subject }: { subject: string }) => {
      if (subjects.length >= room) return { kind: 'refused' as const, reason: 'full' as const, description: 'maximum bytes exceeded' }
      subjects.push(subject)
      return { kind: 'stored' as const, sequence: last + subjects.length, duplicate: false }
    },
  }
  const manifest = { entry: async (k: number) => (k <= sealed ? { k } : undefined) }
  const stored = await padSegment({ bus, manifest } as unknown as PadDeps, next)
  expect(subjects.every((subject) => subject === 'acknowledged.passover')).toBe(true)
  return [stored, subjects.length]
}

// Fails where nothing fills it: no request may come, so no segment would ever be full, and nothing be deleted.
it('fills the last segment of a stream that takes no requests, where all others are done with', async () => {
  expect(await made({})).toEqual([191, 191])
  expect(await made({ last: 8_191 })).toEqual([0, 0])
})

it('leaves a stream alone that takes requests, one with segments to go through, one that is empty, and one that is read late', async () => {
  expect(await made({ requests: 'open' })).toEqual([0, 0])
  expect(await made({ sealed: 1 })).toEqual([0, 0])
  expect(await made({ first: 8_001 })).toEqual([0, 0])
  expect(await made({ last: 12_500 })).toEqual([0, 0])
})

it('stops where there is no room for these either', async () => {
  expect(await made({ room: 10 })).toEqual([10, 10])
})
