import { AgentRegistry, type Bus, decode, openBus, type Table, type Timing } from '@passover/bus'
import { type AgentBody, type AgentRecord, agentRecord } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { replaced } from '../../support/fixtures/audit.js'
import { natsFixture } from '../../support/servers/nats.js'

const WRITERS = 6
const ROUNDS = 8

/** Concurrent changes of one agent: the newest event in the stream is that of the stored record (docs/architecture/dispatcher.md#other-duties). */
describe('records of agents', () => {
  let bus: Bus
  let table: Table<AgentRecord>
  let registry: AgentRegistry
  let disposed: AsyncDisposable[] = []
  let made = 0

  beforeAll(async () => {
    const nats = await natsFixture()
    bus = await openBus({ servers: nats.servers, identity: 'passover' })
    await bus.ensureTopology()
    table = await bus.table('agents', agentRecord)
    registry = new AgentRegistry(bus, table)
    disposed = [bus, nats]
  })
  afterAll(async () => {
    for (const one of disposed) await one[Symbol.asyncDispose]()
  })

  const record = (name: string, description: string): AgentRecord =>
    agentRecord.parse({ name, roles: { originates: 'always', subagent: true }, registered_by: 'maria', updated_at: 1, description })

  async function write(name: string, description: string) {
    const { revision: over } = await registry.standing(name)
    return {
      tell: () => registry.tell(name, record(name, description)),
      keep: (through = table) => new AgentRegistry(bus, through).keep({ record: record(name, description), over }),
    }
  }

  const written = async (name: string, description: string) => {
    const writing = await write(name, description)
    await writing.tell()
    expect(await writing.keep()).toBe('kept')
  }

  /** The same table, of which the first such call comes together with what somebody else does. */
  const disturbed = (what: 'bytesOf' | 'delete', before: () => Promise<unknown>) => {
    let disturbs = true
    const meanwhile = async (key: string, revision?: number) => {
      const found = what === 'bytesOf' ? await table.bytesOf(key) : undefined
      if (disturbs) {
        disturbs = false
        await before()
      }
      return what === 'bytesOf' ? found : await table.delete(key, revision)
    }
    return replaced(table, { [what]: meanwhile })
  }

  /** Of all events of the agent, oldest first: the description, undefined where it was taken out. */
  async function told(name: string): Promise<(string | undefined)[]> {
    const found: (string | undefined)[] = []
    await using reader = await bus.follow({ filters: [bus.subjects.all('agent')] }, ({ data }) => {
      const decoded = decode(data)
      const body = (decoded.ok ? decoded.value : {}) as AgentBody
      if (body.name === name) found.push(body.record?.description)
    })
    await reader.caughtUp
    return found
  }

  const quickly: Timing = {
    wall: () => Date.now(),
    monotonic: () => performance.now(),
    chance: () => 0,
    after: (_, fn) => {
      const soon = setImmediate(fn)
      return { [Symbol.dispose]: () => clearImmediate(soon) }
    },
  }

  const standing = async (name: string) => (await table.get(name))?.value.description

  test('who is second tells again what stands', async () => {
    const name = `agent-${made++}`
    await written(name, 'first')
    const slow = await write(name, 'slow')
    await registry.tell(name, record(name, 'quick'))
    await slow.tell()
    const { revision: over } = await registry.standing(name)
    expect(await registry.keep({ record: record(name, 'quick'), over })).toBe('kept')
    expect(await slow.keep()).toBe('lost')
    expect(await standing(name)).toBe('quick')
    expect(await told(name)).toEqual(['first', 'quick', 'slow', 'quick'])
  })

  test('who said the same tells nothing again', async () => {
    const name = `agent-${made++}`
    const one = await write(name, 'same')
    await written(name, 'same')
    await one.tell()
    expect(await one.keep()).toBe('lost')
    expect(await told(name)).toEqual(['same', 'same'])
  })

  test('what was taken out meanwhile does not come back', async () => {
    const name = `agent-${made++}`
    const [unknown, removed] = [await write(name, 'unknown'), `agent-${made++}`]
    await unknown.tell()
    await written(name, 'first')
    expect(await registry.remove(name)).toMatchObject({ kind: 'stored' })
    expect(await unknown.keep()).toBe('lost')
    expect(await standing(name)).toBeUndefined()
    expect(await told(name)).toEqual(['unknown', 'first', undefined, undefined])
    await written(name, 'again')

    await written(removed, 'first')
    const late = await write(removed, 'late')
    await registry.remove(removed)
    await late.tell()
    expect(await late.keep()).toBe('lost')
    expect(await standing(removed)).toBeUndefined()
    expect(await told(removed)).toEqual(['first', undefined, 'late', undefined])
  })

  test('who changes it just then has the last word, also in the stream', async () => {
    const name = `agent-${made++}`
    const late = await write(name, 'late')
    await written(name, 'quick')
    await late.tell()
    expect(await late.keep(disturbed('bytesOf', () => written(name, 'other')))).toBe('lost')
    expect(await told(name)).toEqual(['quick', 'late', 'other', 'quick', 'other'])
    expect(
      await new AgentRegistry(
        bus,
        disturbed('delete', () => written(name, 'third')),
      ).remove(name),
    ).toMatchObject({ kind: 'stored' })
    expect(await standing(name)).toBeUndefined()
    expect((await told(name)).slice(-3)).toEqual([undefined, 'third', undefined])
    // One that was not there.
    const never = `agent-${made++}`
    expect(
      await new AgentRegistry(
        bus,
        disturbed('delete', () => written(never, 'first')),
      ).remove(never),
    ).toMatchObject({ kind: 'stored' })
    expect([await standing(never), ...(await told(never))]).toEqual([undefined, undefined, 'first', undefined])
  })

  test('a replica that is behind is asked again', async () => {
    const name = `agent-${made++}`
    const late = await write(name, 'late')
    await written(name, 'quick')
    await late.tell()
    let behind = 3
    const lagging = replaced(table, { bytesOf: async (key: string) => (behind-- > 0 ? undefined : await table.bytesOf(key)) })
    expect(await late.keep(lagging)).toBe('lost')
    expect(await told(name)).toEqual(['quick', 'late', 'quick'])
  })

  test('what cannot be told is said', async () => {
    const name = `agent-${made++}`
    const late = await write(name, 'late')
    await written(name, 'quick')
    const silent = replaced(bus, { publish: async () => ({ kind: 'unknown', description: 'no answer' }) })
    const { revision } = await registry.standing(name)
    const nobodyHasIt = replaced(table, { bytesOf: async () => undefined })
    expect(await new AgentRegistry(bus, nobodyHasIt, quickly).keep({ record: record(name, 'late'), over: revision - 1 })).toBe('untold')
    expect(await new AgentRegistry(silent, table, quickly).keep({ record: record(name, 'late'), over: revision - 1 })).toBe('untold')
    expect((await registry.standing(name)).revision).toBe(revision)
    expect(await late.keep()).toBe('lost')
  })

  test('a record that cannot be read here stays as it is', async () => {
    const name = `agent-${made++}`
    const late = await write(name, 'late')
    const newer = await bus.table('agents', z.object({ v: z.literal(2) }))
    const revision = await newer.put(name, { v: 2 })
    await late.tell()
    expect(await late.keep()).toBe('lost')
    expect(await newer.get(name)).toMatchObject({ value: { v: 2 }, revision })
    expect(await registry.standing(name)).toMatchObject({ isUnreadable: true, revision })
    expect(await told(name)).toEqual(['late'])
  })

  test(`the last word of ${WRITERS} who write and take out at once is what stands`, async () => {
    const names = Array.from({ length: ROUNDS }, () => `agent-${made++}`)
    const one = async (name: string, n: number) => {
      if (n % 3 === 2) return void (await registry.remove(name))
      const writing = await write(name, `by ${n}`)
      await writing.tell()
      await writing.keep()
    }
    await Promise.all(names.flatMap((name) => Array.from({ length: WRITERS }, (_, n) => one(name, n))))
    for (const name of names) {
      const events = await told(name)
      expect(events.length).toBeGreaterThanOrEqual(WRITERS)
      expect(events.at(-1)).toBe(await standing(name))
    }
  })
})
