import { encode, type Table } from '@passover/bus'
import { type AgentRecord, HEADER } from '@passover/schemas'
import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import type { DispatcherDeps } from '../runtime/dependencies.js'
import { Registry } from './registry.js'

const recordOf = (updated_at: number): AgentRecord => ({
  name: 'audit',
  roles: { originates: 'always', subagent: true },
  registered_by: 'maria',
  updated_at,
})
const [OLD, NEW] = [recordOf(1), recordOf(2)]

/** Follows the events of the agents: those of both records are stored already. */
async function follow(_: unknown, onMessage: (stored: object, fact: object) => void) {
  const headers = new Map([[HEADER.contentType, 'application/msgpack']])
  for (const [i, record] of [OLD, NEW].entries())
    onMessage({ sequence: i + 1, headers, data: encode({ v: 1, name: record.name, record }) }, { type: 'other' })
  return { caughtUp: Promise.resolve(), closed: new Promise(() => undefined), [Symbol.asyncDispose]: async () => undefined }
}

/** A registry that has read an empty bucket; `tell` is its watch, and `answer` what its last question to the bucket gets. */
async function started() {
  let tell: (name: string, record: AgentRecord | undefined) => void = () => undefined
  let answer: (record: AgentRecord | undefined) => void = () => undefined
  const table = {
    bounced: async () => [],
    update: async () => undefined,
    watch: async (onChange: typeof tell) => {
      tell = onChange
      return { ready: Promise.resolve(), [Symbol.asyncDispose]: async () => undefined }
    },
    get: (key: string) =>
      new Promise((resolve) => {
        answer = (value) => resolve(value && { key, value, revision: 1 })
      }),
  } as unknown as Table<AgentRecord>
  const bus = { table: async () => table, follow, subjects: { all: () => '' } }
  const deps = { bus, clock: { now: () => 0 }, log: pino({ level: 'silent' }) } as unknown as DispatcherDeps
  const registry = await Registry.start(deps)
  return { registry, tell: (record: AgentRecord | undefined) => tell('audit', record), answer: (record?: AgentRecord) => answer(record) }
}

describe('a copy of the bucket that lags behind', () => {
  test.each([
    ['changed', NEW],
    ['removed', undefined],
  ])('does not bring back what the watch says was %s while it was asked', async (_, now) => {
    const { registry, tell, answer } = await started()
    const loaded = registry.load('audit')
    tell(NEW)
    tell(now)
    answer(OLD)
    expect(await loaded).toBe(now)
    expect(registry.get('audit')).toBe(now)
  })

  test('is not asked for a name that was removed a moment ago', async () => {
    const { registry, tell } = await started()
    tell(OLD)
    tell(undefined)
    expect(registry.isUnknown('audit')).toBe(true)
    expect(await registry.load('audit')).toBeUndefined()
  })
})

test('a record that the watch has not told of yet is read, and stands', async () => {
  const { registry, answer } = await started()
  const loaded = registry.load('audit')
  answer(OLD)
  expect(await loaded).toBe(OLD)
  expect(registry.get('audit')).toBe(OLD)
})
