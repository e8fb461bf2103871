import type { Bus, StoredMessage } from '@passover/bus'
import type { Fact } from '@passover/schemas'
import { expect, it } from 'vitest'
import { readBefore } from './read-before.js'

/** A stream with messages 3 to 9, to whose end the reader never comes. */
function streamWithoutEnd() {
  const opened: unknown[] = []
  let closed = 0
  const bus = {
    bounds: async () => ({ first: 3, last: 9 }),
    follow: async (options: { from: number }, onMessage: (stored: StoredMessage, fact: Fact) => void | Promise<void>) => {
      opened.push(options)
      void (async () => {
        for (let sequence = options.from; sequence <= 9; sequence++) await onMessage({ sequence } as StoredMessage, {} as Fact)
      })()
      const never = new Promise<void>(() => undefined)
      return { position: 0, caughtUp: never, closed: never, [Symbol.asyncDispose]: async () => void closed++ }
    },
  } as unknown as Bus
  const read = async (range: { from?: number; until: number }) => {
    const sequences: number[] = []
    await readBefore(bus, { filters: ['a'], ...range }, async ({ sequence }) => {
      await Promise.resolve()
      sequences.push(sequence)
    })
    return sequences
  }
  return { read, opened, closed: () => closed }
}

it('ends where the range ends, whatever the stream has after it', async () => {
  const { read, opened, closed } = streamWithoutEnd()
  expect(await read({ until: 6 })).toEqual([3, 4, 5])
  expect(await read({ from: 5, until: 8 })).toEqual([5, 6, 7])
  expect(opened).toEqual([3, 5].map((from) => ({ filters: ['a'], from })))
  expect(closed()).toBe(2)
})

it('reads nothing if the stream begins after the range', async () => {
  const { read, opened } = streamWithoutEnd()
  expect(await read({ until: 3 })).toEqual([])
  expect(opened).toEqual([])
})
