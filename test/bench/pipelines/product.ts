import { setPriority } from 'node:os'
import { runAudit } from '@passover/audit'
import { openBus, parseCredentials } from '@passover/bus'
import { runDispatcher } from '@passover/dispatcher'
import { connect } from '@passover/sdk'
import { busyPolicyFile } from '../../support/builders/busy-policy.js'
import { drive, type Load, measured, pace, READER_NICENESS, serveRole } from '../measure/harness.js'

/** The product, one part a process: what an installation runs, with chain, policy, timekeeper and audit on. */

interface Options {
  role: 'originator' | 'dispatcher' | 'worker' | 'audit'
  servers: string
  /** Of agents. */
  niceness?: number
  /** Text of a credentials file. */
  credentials?: string
}

const PAUSE_MS = 10
const OBJECTIVE = 'x'.repeat(300)

async function originator(servers: string, credentials: string | undefined) {
  const alice = await connect({ agent: 'alice', servers: [servers] })
  const bus = await openBus({ servers: [servers], identity: 'alice', ...(credentials && { credentials: parseCredentials(credentials) }) })
  const work_context = { objective: OBJECTIVE, session_id: 'bench', directory: '/bench' }
  const one = async () => {
    await alice.passOver({ subagent: 'audit', reason: 'bench', work_context })
  }
  const told = async (id: string, pause_ms: number) => {
    const heard = performance.now()
    for (;;) {
      const answer = JSON.stringify((await bus.ask({ op: 'pass', id, originator: 'alice' })) ?? '')
      if (answer.includes('"returned"') || answer.includes('"processed"')) return performance.now() - heard
      // Under load those who ask must not be what keeps the audit busy.
      if (pause_ms > 0) await new Promise((resolve) => setTimeout(resolve, pause_ms))
    }
  }
  const toldOfOne = async (pause_ms: number) => {
    const handle = alice.passOver({ subagent: 'audit', reason: 'bench', work_context })
    await handle
    return told(handle.id, pause_ms)
  }
  /** How long after a return was heard the audit answers with its record; the 99th percentile of `n`. */
  const audited = async (n: number) => {
    const waits: number[] = []
    for (let i = 0; i < n; i += 1) waits.push(await toldOfOne(0))
    return waits.sort((a, b) => a - b)[Math.floor(n * 0.99)] ?? 0
  }
  /** The same of every so many passes that come at a steady rate. */
  const paced = async (load: { passes: number; rate: number; told_every: number }) => {
    const waits: number[] = []
    const passes = await pace(async (n) => {
      if (n % load.told_every > 0) await one()
      else waits.push(await toldOfOne(PAUSE_MS))
    }, load)
    return { passes, told: measured(waits, passes.seconds) }
  }
  return (command: Record<string, unknown>): Promise<unknown> => {
    if (typeof command.audit === 'number') return audited(command.audit)
    if (typeof command.rate === 'number') return paced(command as never)
    return drive(one, command as unknown as Load)
  }
}

async function worker(servers: string) {
  const audit = await connect({ agent: 'audit', servers: [servers] })
  await audit.onPass(() => 'done', { concurrency: 256 })
}

await serveRole<Options>(async ({ role, servers, niceness, credentials }) => {
  if (credentials) process.env.PASSOVER_CREDENTIALS = credentials
  const env = { ...process.env, NATS_URL: servers, PASSOVER_POLICY: busyPolicyFile(), PASSOVER_LOG_LEVEL: 'error' }
  if (role === 'originator' || role === 'worker') setPriority(niceness ?? 0)
  if (role === 'originator') return originator(servers, credentials)
  if (role === 'worker') await worker(servers)
  if (role === 'dispatcher') await runDispatcher(env)
  if (role === 'audit') {
    setPriority(READER_NICENESS)
    const running = await runAudit(env)
    return async (command) => (command.stats ? running.stats() : running.settled())
  }
  return async () => undefined
})
