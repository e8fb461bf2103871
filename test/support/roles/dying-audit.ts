import { type AuditSettings, startAudit } from '@passover/audit'
import { type Bus, nodeRandom, openBus, serverClock } from '@passover/bus'
import { SILENT } from '../dispatcher/dispatcher.js'
import { replaced } from '../fixtures/audit.js'
import { optionsOf } from './load/load-role.js'
import { dieHere, say } from './role.js'

/** Places between two steps of what an audit seals and deletes: before a write (or a read), and after the server has done it. */
export const DYING_POINTS = ['delete', 'deleted', 'state', 'stated', 'leave', 'left', 'claim', 'claimed', 'read', 'stored'] as const
export type DyingPoint = (typeof DYING_POINTS)[number]

export interface DyingAudit {
  url: string
  settings: AuditSettings
  /** It ends itself, as kill -9 does, when it comes there for the n-th time. */
  at?: { point: DyingPoint; n: number }
}

const { url, settings, at } = optionsOf<DyingAudit>()
let passed = 0

async function passes(point: DyingPoint): Promise<void> {
  if (point === at?.point && ++passed === at.n) await dieHere()
}

/** The same call between two points. */
function between<A extends unknown[], R>(
  [before, after]: [DyingPoint | undefined, DyingPoint | undefined],
  call: (...args: A) => Promise<R>,
) {
  return async (...args: A): Promise<R> => {
    if (before) await passes(before)
    const result = await call(...args)
    if (after) await passes(after)
    return result
  }
}

type Tables = Awaited<ReturnType<Bus['table']>>

function dyingTable(table: Tables): Tables {
  const points = (key: string): [DyingPoint | undefined, DyingPoint | undefined] => {
    if (key === 'retention.state') return ['state', 'stated']
    if (key.startsWith('retention.waiting.')) return ['leave', 'left']
    return key.startsWith('segment.') ? ['claim', 'claimed'] : [undefined, undefined]
  }
  return replaced(table, {
    put: (key: string, value: unknown) => between(points(key), () => table.put(key, value))(),
    create: (key: string, value: unknown) => between(points(key), () => table.create(key, value))(),
    update: (key: string, value: unknown, revision: number) => between(points(key), () => table.update(key, value, revision))(),
  })
}

function dying(bus: Bus): Bus {
  const { journal } = bus
  return replaced(bus, {
    journal: replaced(journal, { deleteMessage: between(['delete', 'deleted'], (sequence: number) => journal.deleteMessage(sequence)) }),
    async table(...args: Parameters<Bus['table']>) {
      const table = await bus.table(...args)
      return args[0] === 'archive' ? dyingTable(table) : table
    },
    async objects(bucket: string) {
      const objects = await bus.objects(bucket)
      if (bucket !== 'archive') return objects
      return replaced(objects, {
        get: between(['read', undefined], (name: string) => objects.get(name)),
        put: between([undefined, 'stored'], (name: string, data: Uint8Array) => objects.put(name, data)),
      })
    },
  })
}

const bus = await openBus({ servers: [url], identity: 'passover', name: 'audit', onError: () => undefined })
const running = await startAudit({ bus: dying(bus), clock: serverClock(bus), random: nodeRandom, log: SILENT }, settings)
await say('reads')
process.once('SIGTERM', () => void running.drain().then(() => process.exit(0)))
