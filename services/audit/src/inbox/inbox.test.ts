import { pino } from 'pino'
import { expect, it } from 'vitest'
import { Inbox, type InboxTable, type WaitingEntry } from './inbox.js'

const key = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }
const clock = { now: () => 0, monotonic: () => 0, after: () => ({ [Symbol.dispose]: () => undefined }) }

// Fails where it is only deleted: the mark that stands for it has the pass's id in its name, for good.
it('what waits no longer leaves the bucket without a mark, or with one where that is not allowed', async () => {
  const done: string[] = []
  let allowed = true
  const table = {
    create: async (name: string) => done.push(`create ${name}`),
    erase: async (name: string) => {
      if (!allowed) throw new Error('not allowed')
      done.push(`erase ${name}`)
    },
    delete: async (name: string) => void done.push(`delete ${name}`),
  }
  const inbox = new Inbox(table as unknown as InboxTable, clock as never, pino({ level: 'silent' }))
  const waits = { item: 'apply' as const, since: 1, expires_at: 2 }
  for (const may of [true, false]) {
    allowed = may
    inbox.note({ key, awaits: waits as never, sequences: { last: 3 } as never }, 1)
    for (const entry of inbox.list({})) inbox.drop(entry)
    await new Promise((turn) => setImmediate(turn))
  }
  const name = 'apply.alice.audit.given-id-1'
  expect(done).toEqual([`create ${name}`, `erase ${name}`, `create ${name}`, `delete ${name}`])
})

// Fails where each writes it: what stood there before, and the pass's id in it, lies in the server's files until it compacts.
it('what a replica has written is not written over, unless it says otherwise', async () => {
  const written = async (there: Partial<WaitingEntry>) => {
    const done: string[] = []
    const table = {
      create: async () => undefined,
      get: async () => ({ value: { item: 'apply', since: 1, expires_at: 2, ...there } }),
      put: async () => done.push('put'),
    }
    const inbox = new Inbox(table as unknown as InboxTable, clock as never, pino({ level: 'silent' }))
    inbox.note({ key, awaits: { item: 'apply', since: 1, expires_at: 2 } as never, sequences: { last: 3 } as never }, 1)
    while (inbox.lowest !== undefined) await new Promise((turn) => setImmediate(turn))
    return done
  }
  expect(await written({})).toEqual([])
  expect(await written({ expires_at: 1 })).toEqual(['put'])
})

// Fails where whoever comes first has all places: what another agent's passes wait for is then in no inbox, and nothing says so.
it('is shared: of too many it leaves out the newest of the agent that has most, says so, and knows it after a restart', async () => {
  const bucket = new Map<string, unknown>()
  const table = {
    create: async (name: string, value: unknown) => bucket.set(name, value).size,
    put: async (name: string, value: unknown) => bucket.set(name, value).size,
    erase: async (name: string) => bucket.delete(name),
    entries: async function* () {
      for (const [name, value] of bucket) yield { key: name, value }
    },
  }
  let now = 0
  const open = () => new Inbox(table as unknown as InboxTable, { ...clock, now: () => now } as never, pino({ level: 'silent' }), 5)
  const inbox = open()
  const held = (originator: string, n: number) => {
    const awaits = { item: 'dispatch', since: n, expires_at: 1_000 + n }
    const pass = { originator, subagent: 'audit', id: `given-id-${n}` }
    inbox.note({ key: pass, awaits: awaits as never, sequences: { last: n } as never }, n)
  }
  for (let n = 1; n <= 10; n++) held('mallory', n)
  expect(inbox.leftOut()).toMatchObject([{ originator: 'mallory', root_originator: 'mallory' }])
  for (const n of [11, 12]) held('bob', n)
  held('mallory', 13)
  const told = (of: Inbox) => of.list({}).map((entry) => `${entry.key.originator} ${entry.since}`)
  const left = ['mallory 1', 'mallory 2', 'mallory 3', 'bob 11', 'bob 12']
  expect(told(inbox)).toEqual(left)
  while (inbox.lowest !== undefined) await new Promise((turn) => setImmediate(turn))
  const again = open()
  await again.load()
  expect(told(again)).toEqual(left)
  expect(again.trouble).toContain('does not list all pending items of mallory')
  expect([again.leftOut({ originator: 'bob' }), again.leftOut({ root_originator: 'alice' })]).toEqual([[], []])
  // Everything that was left out has expired.
  now = 100_000
  expect([again.leftOut(), again.trouble, [...bucket.keys()].filter((name) => name.startsWith('left_out'))]).toEqual([[], undefined, []])
})
