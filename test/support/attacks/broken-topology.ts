import { jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import type { HealthReport } from '@passover/schemas'
import { until } from '../processes/until.js'

type Manager = Awaited<ReturnType<typeof jetstreamManager>>

/** Does by hand what an operator should not. */
export async function byHand<T>(
  to: string[] | { servers: string[]; user: string; pass: string },
  work: (manager: Manager, nc: NatsConnection) => Promise<T>,
): Promise<T> {
  const nc = await connect(Array.isArray(to) ? { servers: to } : to)
  try {
    return await work(await jetstreamManager(nc), nc)
  } finally {
    await nc.close()
  }
}

export function deleteStreams(servers: string[], ...names: string[]): Promise<void> {
  return byHand(servers, async (manager) => {
    for (const name of names) await manager.streams.delete(name)
  })
}

export function deleteConsumers(servers: string[], names: (name: string) => boolean, stream = 'PASSOVER'): Promise<string[]> {
  return byHand(servers, async (manager) => {
    const deleted: string[] = []
    for await (const { name } of manager.consumers.list(stream)) if (names(name)) deleted.push(name)
    for (const name of deleted) await manager.consumers.delete(stream, name)
    return deleted
  })
}

export interface Healthy {
  health(): HealthReport
}

/** One check of a process. */
export function checkOf(process: Healthy, name: string) {
  const found = process.health().checks.find((check) => check.name === name)
  if (!found) throw new Error(`no check ${name}: ${process.health().checks.map((check) => check.name)}`)
  return found
}

/** Waits until all of them are ready, and gives how long that took, ms. */
export async function untilReady(processes: readonly Healthy[], deadline_ms = 60_000): Promise<number> {
  const since = performance.now()
  await until(() => processes.every((process) => process.health().ready), { what: 'all are ready', deadline_ms, every_ms: 10 }).catch(
    (error: unknown) => {
      const wrong = processes.flatMap((process) => process.health().checks.filter(({ state }) => state !== 'ok'))
      throw new Error(`${error instanceof Error ? error.message : String(error)}: ${JSON.stringify(wrong)}`)
    },
  )
  return performance.now() - since
}
