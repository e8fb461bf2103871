import type { ManifestEntry } from '@passover/archive'
import { readHeaders, type Stored, Subjects } from '@passover/bus'
import { expect, it } from 'vitest'
import { type DeletionDeps, SegmentDeleter } from './delete-segment.js'

function message(sequence: number, time: number): Stored {
  const headers = readHeaders('NATS/1.0\r\n\r\n')
  return { sequence, time, subject: 'acknowledged.alice', headers, data: new Uint8Array() }
}

/** Goes through a segment of which the stream has what it has; gives what was deleted. */
async function gone(archived: Stored[], stored: Stored[]): Promise<number[]> {
  const deleted: number[] = []
  const journal = {
    message: async (sequence: number) => stored.find((one) => one.sequence === sequence),
    deleteMessage: async (sequence: number) => void deleted.push(sequence),
  }
  const bus = { subjects: new Subjects(), journal }
  const deps = { bus, rules: { id_window_ms: 1_000 } } as unknown as DeletionDeps
  await new SegmentDeleter(deps).run({ entry: { k: 0 } as ManifestEntry, messages: archived }, () => false)
  return deleted.sort((a, b) => a - b)
}

const archived = [1, 2, 3].map((sequence) => message(sequence, 100 + sequence))

it('deletes what was archived, what of it is gone already included', async () => {
  expect(await gone(archived, archived)).toEqual([1, 2, 3])
  expect(await gone(archived, archived.slice(1, 2))).toEqual([1, 2, 3])
})

// A server that lost its newest messages gives their sequences to others.
it('deletes nothing where the stream has something else at those sequences', async () => {
  const others = [...archived.slice(0, 2), message(3, 999)]
  await expect(gone(archived, others)).rejects.toThrow('sequence 3 of the stream is not what was archived')
})
