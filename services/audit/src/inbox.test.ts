import { pino } from 'pino'
import { expect, it } from 'vitest'
import { Inbox, type InboxTable } from './inbox.js'

const key = { originator: 'alice', subagent: 'audit', id: 'given-id-1' }
const clock = { now: () => 0, monotonic: () => 0, after: () => ({ [Symbol.dispose]: () => undefined }) }

// Fails where it is only deleted: the mark that stands for it has the pass's id in its name, for good.
it('what waits no longer leaves the bucket without a mark, or with one where that is not allowed', async () => {
  const done: string[] = []
  let allowed = true
  const table = {
    put: async (name: string) => done.push(`put ${name}`),
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
  expect(done).toEqual([`put ${name}`, `erase ${name}`, `put ${name}`, `delete ${name}`])
})
