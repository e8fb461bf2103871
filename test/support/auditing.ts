import { randomBytes } from 'node:crypto'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect as connectClient } from '@nats-io/transport-node'
import { type AuditRunning, type AuditSettings, PASSES_BUCKET, startAudit, storedRecord } from '@passover/audit'
import { type Bus, type BusOptions, openBus } from '@passover/bus'
import type { Clock } from '@passover/core'
import type { PassRecord } from '@passover/schemas'
import { pino } from 'pino'
import { type NatsFixture, natsFixture } from './nats.js'
import { registerAgent } from './register.js'

/** A server, its topology and as many audits as a test wants, each on a connection of its own. */
export interface AuditFixture extends AsyncDisposable {
  nats: NatsFixture
  /** Connected as `passover`. */
  bus: Bus
  connect(identity: string, options?: Partial<BusOptions>): Promise<Bus>
  /** `through` may stand between the audit and its bus. */
  audit(settings?: AuditSettings, through?: (bus: Bus) => Bus): Promise<AuditRunning>
  register(...agents: string[]): Promise<void>
  /** Every record by its key. */
  records(): Promise<Map<string, PassRecord>>
  /** The bytes of every record by its key. */
  recordBytes(): Promise<Map<string, string>>
  /** Deletes the bucket of records, or any stream, and makes an empty one. */
  deleteRecords(): Promise<void>
  deleteStream(name: string): Promise<void>
}

export function clockOf(bus: Bus): Clock {
  return {
    now: () => bus.now(),
    monotonic: () => performance.now(),
    after(ms, fn) {
      const timer = setTimeout(fn, ms)
      return { [Symbol.dispose]: () => clearTimeout(timer) }
    },
  }
}

/** A bus of which one write to one bucket never ends, as if the process had died in it. What it held then is lost with it. */
export function dyingAt(bucket: string, write: 'create' | 'put' | 'update' | 'send', when: (key: string) => boolean): (bus: Bus) => Bus {
  return (bus) =>
    replaced(bus, {
      async table(...args: Parameters<Bus['table']>) {
        const table = await bus.table(...args)
        if (args[0] !== bucket) return table
        const hangs = (key: string, ...more: unknown[]) =>
          when(key) ? new Promise(() => undefined) : (table[write] as (...all: unknown[]) => unknown).call(table, key, ...more)
        return replaced(table, { [write]: hangs })
      },
    })
}

/** The same object but for some of its methods; the others are called on the object itself, whose fields are private. */
export function replaced<T extends object>(target: T, methods: Record<string, unknown>): T {
  return new Proxy(target, {
    get(of, name) {
      if (typeof name === 'string' && name in methods) return methods[name]
      const value = Reflect.get(of, name, of) as unknown
      return typeof value === 'function' ? value.bind(of) : value
    },
  })
}

export async function auditFixture(): Promise<AuditFixture> {
  const nats = await natsFixture()
  const opened: AsyncDisposable[] = []
  const connect = async (identity: string, options: Partial<BusOptions> = {}) => {
    const bus = await openBus({ servers: nats.servers, identity, ...options })
    opened.unshift(bus)
    return bus
  }
  const deleteStream = async (name: string) => {
    const nc = await connectClient({ servers: nats.servers })
    const { streams } = await jetstreamManager(nc)
    const { config } = await streams.info(name)
    await streams.delete(name)
    // Nothing of ours makes the main stream anew while there is something that was made of it.
    await streams.add(config)
    await nc.close()
    await bus.ensureTopology()
  }
  const bus = await connect('passover')
  await bus.ensureTopology()
  return {
    nats,
    bus,
    connect,
    async audit(settings = {}, through = (own) => own) {
      const own = through(await connect('passover', { name: 'audit' }))
      const log = pino({ level: process.env.PASSOVER_LOG_LEVEL ?? 'silent' })
      const running = await startAudit(
        { bus: own, clock: clockOf(own), random: { bytes: (n) => randomBytes(n) }, log },
        { open: true, ...settings },
      )
      opened.unshift(running)
      return running
    },
    async register(...agents) {
      for (const name of agents) {
        await registerAgent(bus, { name, roles: { originates: 'always', subagent: true }, registered_by: 'maria', updated_at: 1 })
      }
    },
    async records() {
      const table = await bus.table(PASSES_BUCKET, storedRecord)
      const found = new Map<string, PassRecord>()
      for await (const { key, value } of table.entries()) found.set(key, value)
      return found
    },
    async recordBytes() {
      const raw = await connect('passover', { stream: `KV_${PASSES_BUCKET}` })
      const found = new Map<string, string>()
      const reader = await raw.follow({}, ({ subject, data }) => {
        if (data.length > 0) found.set(subject, Buffer.from(data).toString('hex'))
      })
      await reader.caughtUp
      await reader[Symbol.asyncDispose]()
      return found
    },
    deleteRecords: () => deleteStream(`KV_${PASSES_BUCKET}`),
    deleteStream,
    async [Symbol.asyncDispose]() {
      for (const one of opened) await one[Symbol.asyncDispose]()
      await nats[Symbol.asyncDispose]()
    },
  }
}
