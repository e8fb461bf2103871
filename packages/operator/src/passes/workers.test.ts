import { encode } from '@passover/bus'
import { PRESENCE_MAX_BYTES, PRESENCE_PLACES, type PresenceRecord } from '@passover/schemas'
import { describe, expect, it } from 'vitest'
import { PresenceScan } from './workers.js'

const NOW = 1_000_000
const LAST = 10_000

function entry(key: string, said: Partial<PresenceRecord> = {}, revision = 1) {
  const [agent = '', instance = ''] = key.split('.')
  const record = { agent, instance, host: 'h', pid: 1, concurrency: 4, running: 1, started_at: 1, seen_at: NOW, ...said }
  return { key, data: encode(record), revision }
}

function found(...entries: ReturnType<typeof entry>[]) {
  const presence = new PresenceScan({ last: LAST, now: () => NOW })
  for (const one of entries) presence.take(one)
  return Object.fromEntries(presence.up())
}

describe('PresenceFound', () => {
  it('adds up the instances of an agent, each once', () => {
    expect(found(entry('scout.a'), entry('scout.b', { running: 2 }), entry('scout.a', { running: 3 }, LAST + 1))).toEqual({
      scout: { instances: 2, running: 5, places: 8 },
    })
  })

  it('leaves out an entry that is too old, of the future, beyond the limits, or of another key', () => {
    const entries = [
      entry('old.a', { seen_at: NOW - 20_000 }),
      entry('future.a', { seen_at: NOW + 5_000 }),
      entry('huge.a', { concurrency: 10_001 }),
      entry('huge.b', { running: 1e15 }),
      entry('mallory.a', { agent: 'scout' }),
      { key: 'mallory.c', data: Uint8Array.of(0xff), revision: 1 },
      entry('scout.a', { seen_at: NOW + 1_000, running: 9 }),
    ]
    // No more runs than may.
    expect(found(...entries)).toEqual({ scout: { instances: 1, running: 4, places: 4 } })
  })

  it('bounds what an agent writes without end, and hides nothing of the others', () => {
    const presence = new PresenceScan({ last: LAST, now: () => NOW })
    for (let n = 0; n < 5_000; n++) expect(presence.take(entry(`mallory.${n}`))).toBe(true)
    expect(presence.take(entry('scout.a'))).toBe(true)
    expect(presence.up().get('mallory')?.instances).toBe(PRESENCE_PLACES)
    expect(presence.up().get('scout')?.instances).toBe(1)
    const own = new PresenceScan({ last: LAST, now: () => NOW, only: 'mallory' })
    const read = Array.from({ length: 1_001 }, (_, n) => own.take(entry(`mallory.${n}`)))
    expect(read.indexOf(false)).toBe(PRESENCE_PLACES)
  })

  it('ends although somebody writes faster than it reads', () => {
    const presence = new PresenceScan({ last: LAST, now: () => NOW })
    let taken = 0
    while (presence.take(entry('mallory.a', {}, LAST + ++taken))) if (taken > 5_000) break
    expect(taken).toBe(1_001)
  })

  it('a record at its limits fits in the bucket', () => {
    const record = {
      agent: 'a'.repeat(64),
      instance: '漢'.repeat(128),
      host: '漢'.repeat(256),
      pid: 2 ** 53 - 1,
      started_at: 1,
      seen_at: 1,
    }
    expect(encode({ ...record, concurrency: 10_000, running: 10_000 }).length).toBeLessThan(PRESENCE_MAX_BYTES - 512)
  })
})
