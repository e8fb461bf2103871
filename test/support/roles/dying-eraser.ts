import { type AuditSettings, PASSES_BUCKET, startAudit } from '@passover/audit'
import { type Bus, decode, nodeRandom, openBus, serverClock } from '@passover/bus'
import { HEADER } from '@passover/schemas'
import { SILENT } from '../dispatcher/dispatcher.js'
import { replaced } from '../fixtures/audit.js'
import type { EraseEdge, EraseStep } from '../fixtures/erasure.js'
import { optionsOf } from './load/load-role.js'
import { dieHere, say } from './role.js'

export interface DyingEraser {
  url: string
  settings: AuditSettings
  at: EraseEdge
}

const { url, settings, at } = optionsOf<DyingEraser>()
let passed = 0

async function between<R>(step: EraseStep | undefined, write: () => Promise<R>): Promise<R> {
  const here = step === at.step && ++passed === at.n
  if (here && at.side === 'before') await dieHere()
  const result = await write()
  if (here) await dieHere()
  return result
}

function saidStep(bus: Bus, { subject, headers, data }: Parameters<Bus['publish']>[0]): EraseStep | undefined {
  if (subject !== bus.subjects.custody('passover') || !data) return undefined
  const body = decode(data, headers?.[HEADER.contentType])
  const { kind } = (body.ok ? body.value : {}) as { kind?: string }
  if (kind === 'erased') return 'tombstone'
  return kind === 'done' ? 'done' : undefined
}

function dying(bus: Bus): Bus {
  const { journal, parts } = bus
  return replaced(bus, {
    publish: (message: Parameters<Bus['publish']>[0]) => between(saidStep(bus, message), () => bus.publish(message)),
    journal: replaced(journal, {
      deleteMessage: (sequence: number, how?: 'overwrite') => between(how && 'message', () => journal.deleteMessage(sequence, how)),
    }),
    parts: replaced(parts, { removeToken: (owner: string, token: string) => between('part', () => parts.removeToken(owner, token)) }),
    async table(...args: Parameters<Bus['table']>) {
      const table = await bus.table(...args)
      if (args[0] === PASSES_BUCKET) return replaced(table, { erase: (key: string) => between('record', () => table.erase(key)) })
      if (args[0] !== 'archive') return table
      return replaced(table, {
        update: (key: string, value: unknown, revision: number) =>
          between(key.startsWith('segment.') ? 'entry' : undefined, () => table.update(key, value, revision)),
      })
    },
    async objects(bucket: string) {
      const objects = await bus.objects(bucket)
      return replaced(objects, {
        put: (name: string, data: Uint8Array) => between('object', () => objects.put(name, data)),
        delete: (name: string, how?: 'overwrite') => between(how && 'former', () => objects.delete(name, how)),
      })
    },
  })
}

const bus = await openBus({ servers: [url], identity: 'passover', name: 'audit', onError: () => undefined })
const running = await startAudit({ bus: dying(bus), clock: serverClock(bus), random: nodeRandom, log: SILENT }, settings)
await say('reads')
process.once('SIGTERM', () => void running.drain().then(() => process.exit(0)))
