import { randomBytes } from 'node:crypto'
import { openBus } from '@passover/bus'
import type { Clock } from '@passover/core'
import type { HealthReport } from '@passover/schemas'
import type { Agent } from '@passover/sdk'
import { createAgent, type Faults } from '@passover/sdk/internal'
import { openTracing } from '@passover/tracing'

/** What the processes of tests share: they speak to the test by IPC, and end themselves where they are told to. */

/** Settles when it was handed over: what was said before a SIGKILL of oneself still arrives. */
export function say(event: string, fields: object = {}): Promise<void> {
  return new Promise((done) => {
    if (!process.connected || !process.send) return done()
    process.send({ event, ...fields }, () => done())
  })
}

export interface Order {
  do: string
  [field: string]: unknown
}

const waiting: { name: string; take: (order: Order) => void }[] = []
const early: Order[] = []
process.on('message', (message) => {
  const order = message as Order
  const at = waiting.findIndex(({ name }) => name === order.do)
  if (at < 0) early.push(order)
  else waiting.splice(at, 1)[0]?.take(order)
})

/** The next order of that name, also one that came before it was asked for. */
export function order(name: string): Promise<Order> {
  const at = early.findIndex((one) => one.do === name)
  if (at >= 0) return Promise.resolve(early.splice(at, 1)[0] as Order)
  return new Promise((take) => waiting.push({ name, take }))
}

/** Says how it is whenever it is told `health`. */
export async function tellHealth(health: () => HealthReport): Promise<never> {
  for (;;) {
    await order('health')
    await say('health', { report: health() })
  }
}

const forever = new Promise<never>(() => undefined)

/** Ends this process as `kill -9` does; nothing after it happens. */
export function dieHere(): Promise<never> {
  process.kill(process.pid, 'SIGKILL')
  return forever
}

/** KILL_AT: die at the first passage of that point. STALL_AT: say so there, and go on when told `go`. */
export async function faultHere(point: string, id?: string): Promise<void> {
  if (point === process.env.KILL_AT) {
    await say('dies', { point })
    await dieHere()
  }
  if (point === process.env.STALL_AT) {
    await say('stalled', { point, id })
    await order('go')
  }
}

/** Connects as PASSOVER_AGENT to NATS_URL. */
export async function agentHere(faults: Faults = { at: (point, key) => faultHere(point, key.id) }): Promise<Agent> {
  const bus = await openBus({ servers: process.env.NATS_URL ?? '', identity: process.env.PASSOVER_AGENT ?? '', onError: () => undefined })
  const clock: Clock = {
    now: () => bus.now(),
    monotonic: () => performance.now(),
    after: (ms, fn) => {
      const timer = setTimeout(fn, ms).unref()
      return { [Symbol.dispose]: () => clearTimeout(timer) }
    },
  }
  const tracing = await openTracing({ env: process.env, service: bus.identity, say: (line) => void process.stderr.write(`${line}\n`) })
  const random = { bytes: (length: number) => randomBytes(length) }
  return createAgent({ bus, clock, random, tracing, faults, process: { host: 'here', pid: process.pid } }, { directory: '/project' })
}
