import { encode, type StoredMessage, type Table } from '@passover/bus'
import { type Clock, packSequences } from '@passover/core'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { AckIndex } from './ack-index.js'
import { type ChunkEntry, decodeChunk, hasBit } from './sequence-bitmap.js'

const clock: Clock = { now: () => 0, monotonic: () => 0, after: () => ({ [Symbol.dispose]: () => undefined }) }

/** An index on a bucket that answers each write when the test says so. */
function indexing() {
  let held: ChunkEntry | undefined
  const writes: (() => void)[] = []
  let turn = () => {}
  const table: Pick<Table<ChunkEntry>, 'get' | 'create' | 'update'> = {
    get: async (key) => held && { key, value: held, revision: 1 },
    create: (_, value) => write(value),
    update: (_, value) => write(value),
  }
  function write(value: ChunkEntry): Promise<number> {
    turn()
    return new Promise((done) =>
      writes.push(() => {
        held = value
        done(1)
      }),
    )
  }
  const index = new AckIndex(table as Table<ChunkEntry>, clock, pino({ level: 'silent' }))
  const take = (sequence: number) => {
    const data = encode({ v: 1, returns: packSequences([sequence]) })
    index.take({ data, headers: new Map() } as unknown as StoredMessage, {
      type: 'acknowledged',
      originator: 'alice',
      sequence: 1_000,
      time: 0,
    })
  }
  return {
    index,
    take,
    isWritten: (sequence: number) => hasBit(decodeChunk(held), sequence),
    /** The bucket has been asked to write once more. */
    asked: () =>
      writes.length > 0
        ? Promise.resolve()
        : new Promise<void>((done) => {
            turn = done
          }),
    answer: () => writes.shift()?.(),
  }
}

describe('Acknowledged', () => {
  it('flushes what each caller had taken, also where several ask while one is written', async () => {
    const { index, take, isWritten, asked, answer } = indexing()
    const after = async (sequence: number) => {
      take(sequence)
      await index.flush()
      return isWritten(sequence)
    }
    const first = after(1)
    await asked()
    const others = [after(2), after(3)]
    answer()
    expect(await first).toBe(true)
    await asked()
    answer()
    expect(await Promise.all(others)).toEqual([true, true])
    expect(index.pending).toBe(0)
  })

  it('writes what it has when it is stopped just after it was asked to', async () => {
    const { index, take, isWritten, asked, answer } = indexing()
    take(1)
    const flushed = index.flush()
    index.stop()
    await asked()
    answer()
    await flushed
    expect(isWritten(1)).toBe(true)
  })
})
