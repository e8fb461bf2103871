import { decodeTrusted, type Entry, encode, type PublishResult, type Table } from '@passover/bus'
import type { Clock } from '@passover/core'
import type { PassRecord } from '@passover/schemas'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { decodeIndexEntry, indexEntryOf } from '../search/index/index-entry.js'
import { PassIndex } from '../search/index/pass-index.js'
import { rowOf } from './build-record.js'
import { hasBegun, isLasting, type RecordListener, RecordStore, recordFilter, recordKey, type Slot } from './record-store.js'

const key = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }
function soon(_ms: number, fn: () => void): Disposable {
  queueMicrotask(fn)
  return { [Symbol.dispose]() {} }
}
const clock: Clock = { now: () => 0, monotonic: () => 0, after: soon }
const silent = pino({ level: 'silent' })

function recordOf(last: number, more: Partial<PassRecord> = {}): PassRecord {
  return {
    v: 1,
    key,
    status: 'returned',
    attempt: 1,
    sequences: { requests: [1], work: 2, return: 3, fences: [], last },
    decisions: [],
    ...more,
  }
}

/** A bucket that fails as often as it is told. */
class MemoryTable implements Pick<Table<PassRecord>, 'put' | 'create' | 'update' | 'send' | 'bytesOf'> {
  readonly held = new Map<string, Entry<PassRecord>>()
  /** What a replica that is behind has yet, and for how many reads. */
  behind: { reads: number; found?: { data: Uint8Array; revision: number } | undefined } = { reads: 0 }
  failures = 0
  private revision = 0

  send(at: string, data: Uint8Array, revision: number | undefined, settle: (outcome: PublishResult) => void) {
    const value = decodeTrusted(data) as PassRecord
    const write = revision === undefined ? this.put(at, value) : revision === 0 ? this.create(at, value) : this.update(at, value, revision)
    write.then(
      (sequence) => settle(sequence === undefined ? { kind: 'lost' } : { kind: 'stored', sequence }),
      () => settle({ kind: 'unknown', description: 'no answer' }),
    )
  }
  async bytesOf(at: string) {
    if (this.behind.reads-- > 0) return this.behind.found
    const entry = this.held.get(at)
    return entry && { data: entry.value && encode(entry.value), revision: entry.revision }
  }
  async put(at: string, value: PassRecord) {
    this.held.set(at, { key: at, value, revision: ++this.revision })
    return this.revision
  }
  async create(at: string, value: PassRecord) {
    if (this.failures-- > 0) throw new Error('no answer')
    return this.held.has(at) ? undefined : this.put(at, value)
  }
  async update(at: string, value: PassRecord, revision: number) {
    return this.held.get(at)?.revision === revision ? this.put(at, value) : undefined
  }
}

/** Writes records as they are; `standing` is told what stands in the bucket. */
function recordsOn(table: MemoryTable, listener: RecordListener = { wrote: () => undefined, found: () => undefined }) {
  const records = new RecordStore(table as unknown as Table<PassRecord>, listener, clock, silent)
  return {
    write: (slot: Slot, stored: PassRecord) => records.write(slot, { stored, row: rowOf(stored) }),
    stop: () => records.stop(),
    forget: (erased: number[]) => records.forget(new Set(erased)),
    get pending() {
      return records.pending
    },
    get writes() {
      return records.writes
    },
  }
}

describe('recordKey', () => {
  const at = Date.UTC(2026, 10, 28)
  it('is month, session, originator, subagent, id', () => {
    expect(recordKey(key, at, 'session-1')).toBe('2026-11.session-1.alice.audit.given-id-1')
    expect(recordFilter({ ...key, session_id: 'session-1' })).toBe('*.session-1.alice.audit.given-id-1')
    expect(recordFilter({ subagent: 'audit' })).toBe('*.*.*.audit.*')
  })
  it('a session that is no token is hashed, none is a dash', () => {
    expect(recordKey(key, at, 'a b')).toMatch(/^2026-11\.x[0-9a-f]{32}\.alice/)
    expect(recordKey(key, at, 's'.repeat(65))).toMatch(/^2026-11\.x[0-9a-f]{32}\.alice/)
    expect(recordKey(key, at, undefined)).toBe('2026-11.-.alice.audit.given-id-1')
    expect(recordKey(key, at, 'a b')).not.toBe(recordKey(key, at, 'a  b'))
  })
})

describe('recordKey of a time that is none', () => {
  it.each([8_640_000_000_000_000, Number.MAX_SAFE_INTEGER, -1, Number.NaN])('is a key: %d', (time) => {
    expect(recordKey(key, time, undefined)).toBe('9999-12.-.alice.audit.given-id-1')
  })
})

describe('Records', () => {
  it('a record that knows less never stands where one that knows more stood', async () => {
    const table = new MemoryTable()
    await recordsOn(table).write({ key: 'k' }, recordOf(9))
    await recordsOn(table).write({ key: 'k' }, recordOf(4))
    expect(table.held.get('k')?.value.sequences.last).toBe(9)
    await recordsOn(table).write({ key: 'k' }, recordOf(12))
    expect(table.held.get('k')?.value.sequences.last).toBe(12)
  })

  // Fails where nothing that is found counts as a bucket that lost it: the record of an erased pass comes back.
  it('is not written again where its pass was erased while it was being written', async () => {
    const table = new MemoryTable()
    const records = recordsOn(table)
    const slot: Slot = { key: 'k' }
    await records.write(slot, recordOf(4))
    table.held.delete('k')
    const under = records.write(slot, recordOf(9))
    records.forget([1])
    expect(await under).toBe(true)
    expect([table.held.size, records.pending]).toEqual([0, 0])
  })

  // Fails where what a replica that is behind does not find is taken for nothing that could be read.
  it('nor where a replica that is behind has nothing of it yet, or what stood there before', async () => {
    const table = new MemoryTable()
    await recordsOn(table).write({ key: 'k' }, recordOf(2))
    const found = await table.bytesOf('k')
    await recordsOn(table).write({ key: 'k' }, recordOf(9))
    for (const behind of [{ reads: 3 }, { reads: 3, found }]) {
      table.behind = behind
      expect(await recordsOn(table).write({ key: 'k' }, recordOf(4))).toBe(true)
      expect(table.held.get('k')?.value.sequences.last).toBe(9)
      expect(table.behind.reads).toBeLessThan(0)
    }
  })

  it.each([undefined, { v: 7 }])('stands over what says nothing: %j', async (value) => {
    const table = new MemoryTable()
    table.held.set('k', { key: 'k', value: value as unknown as PassRecord, revision: await table.put('k', recordOf(1)) })
    await recordsOn(table).write({ key: 'k' }, recordOf(4))
    expect(table.held.get('k')).toMatchObject({ value: { sequences: { last: 4 } }, revision: 2 })
  })

  it('writing the same again changes nothing', async () => {
    const table = new MemoryTable()
    await recordsOn(table).write({ key: 'k' }, recordOf(9))
    const other = recordsOn(table)
    await other.write({ key: 'k' }, recordOf(9))
    expect([other.writes, table.held.get('k')?.revision]).toEqual([0, 1])
  })

  it('tries again until it is written', async () => {
    const table = new MemoryTable()
    table.failures = 3
    expect(await recordsOn(table).write({ key: 'k' }, recordOf(9))).toBe(true)
    expect(table.held.size).toBe(1)
  })

  it('gives up a record that no waiting can write, and goes on', async () => {
    const table = new MemoryTable()
    const records = recordsOn(table)
    table.send = () => {
      throw new TypeError('not a key')
    }
    expect(await records.write({ key: 'k' }, recordOf(9))).toBe(true)
    table.send = (_at, _data, _revision, settle) => settle({ kind: 'refused', reason: 'too_large', description: '' })
    expect(await records.write({ key: 'k' }, recordOf(9))).toBe(true)
    expect(records.pending).toBe(0)
  })

  // Fails where the index takes what was to be written for what stands there: a restarted audit knows less of a pass than its record says.
  it('tells the index what stands in the bucket, never what was not written', async () => {
    const table = new MemoryTable()
    const index = new PassIndex(3)
    const listener: RecordListener = {
      wrote: (record, revision) => index.put(indexEntryOf(record, revision), 'live'),
      found: (data, revision) => {
        const entry = decodeIndexEntry(data, revision)
        if (entry) index.put(entry, 'live')
      },
    }
    await recordsOn(table).write({ key: 'k' }, recordOf(9))
    const restarted = recordsOn(table, listener)
    const slot: Slot = { key: 'k' }
    await restarted.write(slot, recordOf(4, { status: 'waiting_for_return', sequences: { requests: [1], work: 2, fences: [], last: 4 } }))
    await restarted.write(slot, recordOf(9))
    const found = await table.bytesOf('k')
    const should = found && decodeIndexEntry(found.data, found.revision)
    const place = index.find(key)
    expect(should?.status).toBe('returned')
    expect(place && should && index.differenceAt(place, should)).toBeUndefined()
    expect(place).toBeDefined()
    const expired = recordOf(90, {
      status: 'refused',
      error: { code: 'E005' } as never,
      sequences: { requests: [80], return: 90, fences: [], last: 90 },
    })
    await recordsOn(table, listener).write({ key: 'k' }, expired)
    expect(place && should && index.differenceAt(place, should)).toBeUndefined()
  })

  it('gives up when stopped, and says so', async () => {
    const table = new MemoryTable()
    table.failures = 1_000_000
    const records = recordsOn(table)
    const written = records.write({ key: 'k' }, recordOf(9))
    records.stop()
    expect(await written).toBe(false)
    expect(records.pending).toBe(0)
  })

  it('an "expired" answer to a later request does not stand over the pass that ended', async () => {
    const table = new MemoryTable()
    await recordsOn(table).write({ key: 'k' }, recordOf(9))
    const expired = recordOf(90, {
      status: 'refused',
      error: { code: 'E005', message: 'expired' },
      sequences: { requests: [80], return: 90, fences: [], last: 90 },
    })
    await recordsOn(table).write({ key: 'k' }, expired)
    expect(table.held.get('k')?.value.sequences.last).toBe(9)
  })
})

describe('a record that is there when a request for its id is told that it is expired', () => {
  const sequences = { requests: [1], fences: [], last: 1 }
  const error = (code: 'E004' | 'E005') => ({
    error: { code, name: 'X', message: 'x', recoverable: false } as unknown as NonNullable<PassRecord['error']>,
  })

  it.each<[string, Partial<PassRecord>, { kept: boolean; more: boolean }]>([
    ['of a pass that ended', {}, { kept: true, more: true }],
    ['of one that is open', { sequences: { ...sequences, work: 2 } }, { kept: true, more: true }],
    ['of one that is held', { sequences: { ...sequences, held: 2 } }, { kept: true, more: true }],
    ['of one that was refused', { sequences: { ...sequences, return: 2 }, ...error('E004') }, { kept: true, more: true }],
    ['of one that was only asked for: it waits for that answer', { sequences }, { kept: true, more: false }],
    ['of one that was expired before', { sequences: { ...sequences, return: 2 }, ...error('E005') }, { kept: false, more: false }],
  ])('%s', (_, more, expected) => {
    const record = recordOf(2, more)
    expect({ kept: isLasting(record), more: hasBegun(record) }).toEqual(expected)
  })
})
