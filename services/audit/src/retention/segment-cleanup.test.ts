import { segmentRange } from '@passover/archive'
import { expect, it } from 'vitest'
import { SegmentCleanup } from './segment-cleanup.js'

/** What of a segment that is marked as removed is deleted. */
async function cleared(tells: (k: number) => boolean) {
  const deleted: string[] = []
  const errors: unknown[] = []
  const deps = {
    archive: { forget: () => undefined },
    log: { error: (about: unknown) => errors.push(about) },
    objects: { get: async () => undefined, delete: async (name: string) => void deleted.push(name) },
    rows: { removeWithin: () => undefined },
    indexing: { forgetGone: async () => undefined },
  }
  const cleanup = new SegmentCleanup(deps as never, { tells: async (k) => tells(k) })
  await cleanup.clean({ k: 3, object: 'frames', index: 'index' } as never)
  return { deleted, errors }
}

it('deletes what was told to leave, and keeps as evidence what somebody marked of which nothing tells', async () => {
  expect(await cleared((k) => k === 3)).toEqual({ deleted: ['frames', 'index'], errors: [] })
  expect(await cleared(() => false)).toEqual({ deleted: [], errors: [{ segment: 3 }] })
})

it('forgets what memory has of segments that are gone, and nothing of one that is kept between them', async () => {
  const forgotten: number[] = []
  const asked: { has(sequence: number): boolean }[] = []
  const note = (removed: { has(sequence: number): boolean }) => void asked.push(removed)
  const deps = { archive: { forget: (k: number) => forgotten.push(k) }, rows: { removeWithin: note }, indexing: { forgetGone: note } }
  const cleanup = new SegmentCleanup(deps as never, { tells: async () => true })
  await cleanup.forget([{ k: 3 }, { k: 5 }] as never)
  expect(forgotten).toEqual([3, 5])
  const within = asked.map((removed) =>
    [2, 3, 4, 5, 6].filter((k) => removed.has(segmentRange(k).first) && removed.has(segmentRange(k).last)),
  )
  expect(within).toEqual([
    [3, 5],
    [3, 5],
  ])
})
