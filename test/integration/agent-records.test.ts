import { type Bus, decode, keepAgent, openBus, removeAgent, type Table, tellAgent } from '@passover/bus'
import { type AgentBody, type AgentRecord, agentRecord } from '@passover/schemas'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { replaced } from '../support/auditing.js'
import { natsFixture } from '../support/nats.js'

const WRITERS = 6
const ROUNDS = 8

/** Two who change an agent at once: the stream's last word of it is what stands (decision 125). */
describe('records of agents', () => {
  let bus: Bus
  let table: Table<AgentRecord>
  let disposed: AsyncDisposable[] = []
  let made = 0

  beforeAll(async () => {
    const nats = await natsFixture()
    bus = await openBus({ servers: nats.servers, identity: 'passover' })
    await bus.ensureTopology()
    table = await bus.table('agents', agentRecord)
    disposed = [bus, nats]
  })
  afterAll(async () => {
    for (const one of disposed) await one[Symbol.asyncDispose]()
  })

  const record = (name: string, description: string): AgentRecord =>
    agentRecord.parse({ name, roles: { originates: 'always', subagent: true }, registered_by: 'maria', updated_at: 1, description })

  async function write(name: string, description: string) {
    const over = (await table.get(name))?.revision
    return {
      tell: () => tellAgent(bus, name, record(name, description)),
      keep: () => keepAgent(bus, table, record(name, description), over),
    }
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

  const standing = async (name: string) => (await table.get(name))?.value.description

  test('who is second tells again what stands', async () => {
    const name = `agent-${made++}`
    const first = await write(name, 'first')
    await first.tell()
    expect(await first.keep()).toBe(true)
    const [slow, quick] = [await write(name, 'slow'), await write(name, 'quick')]
    await quick.tell()
    await slow.tell()
    expect(await quick.keep()).toBe(true)
    expect(await slow.keep()).toBe(false)
    expect(await standing(name)).toBe('quick')
    expect(await told(name)).toEqual(['first', 'quick', 'slow', 'quick'])
  })

  test('what was taken out meanwhile does not come back', async () => {
    const name = `agent-${made++}`
    const first = await write(name, 'first')
    await first.tell()
    await first.keep()
    const late = await write(name, 'late')
    const removing = removeAgent(bus, table, name)
    await late.tell()
    expect(await removing).toMatchObject({ kind: 'stored' })
    expect(await late.keep()).toBe(false)
    expect(await standing(name)).toBeUndefined()
    expect((await told(name)).at(-1)).toBeUndefined()
    expect(await (await write(name, 'again')).keep()).toBe(true)
  })

  test('who changes it just then has the last word, also in the stream', async () => {
    const name = `agent-${made++}`
    const [late, quick] = [await write(name, 'late'), await write(name, 'quick')]
    await quick.tell()
    await quick.keep()
    await late.tell()
    /** A table of which the first such call comes together with another's change. */
    const disturbed = (what: 'bytesOf' | 'delete') => {
      let disturbs = true
      const meanwhile = async (...args: [string, number?]) => {
        if (!disturbs) return await table[what](...args)
        disturbs = false
        const found = what === 'bytesOf' ? await table.bytesOf(...args) : undefined
        const other = await write(name, 'other')
        await other.tell()
        expect(await other.keep()).toBe(true)
        return found ?? (await table[what](...args))
      }
      return replaced(table, { [what]: meanwhile })
    }
    expect(await keepAgent(bus, disturbed('bytesOf'), record(name, 'late'))).toBe(false)
    expect(await standing(name)).toBe('other')
    expect((await told(name)).at(-1)).toBe('other')
    expect(await removeAgent(bus, disturbed('delete'), name)).toMatchObject({ kind: 'stored' })
    expect(await standing(name)).toBeUndefined()
    expect((await told(name)).at(-1)).toBeUndefined()
  })

  test('a record that cannot be read here stays as it is', async () => {
    const name = `agent-${made++}`
    const late = await write(name, 'late')
    const newer = await bus.table('agents', z.object({ v: z.literal(2) }))
    const revision = await newer.put(name, { v: 2 })
    await late.tell()
    expect(await late.keep()).toBe(false)
    expect(await newer.get(name)).toMatchObject({ value: { v: 2 }, revision })
  })

  test(`the last word of ${WRITERS} who write and take out at once is what stands`, async () => {
    const names = Array.from({ length: ROUNDS }, () => `agent-${made++}`)
    const one = async (name: string, n: number) => {
      if (n % 3 === 2) return void (await removeAgent(bus, table, name))
      const writing = await write(name, `by ${n}`)
      await writing.tell()
      await writing.keep()
    }
    await Promise.all(names.flatMap((name) => Array.from({ length: WRITERS }, (_, n) => one(name, n))))
    for (const name of names) expect((await told(name)).at(-1)).toBe(await standing(name))
  })
})
