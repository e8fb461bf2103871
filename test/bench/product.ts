import { runAudit } from '@passover/audit'
import { openBus } from '@passover/bus'
import { runDispatcher } from '@passover/dispatcher'
import { connect } from '@passover/sdk'
import { busyPolicyFile } from '../support/busy-policy.js'
import { drive, type Load, serveRole } from './harness.js'

/** The product, one part a process: what an installation runs, with chain, policy, timekeeper and audit on. */

interface Options {
  role: 'originator' | 'dispatcher' | 'worker' | 'audit'
  servers: string
}

const OBJECTIVE = 'x'.repeat(300)

async function originator(servers: string) {
  const alice = await connect({ agent: 'alice', servers: [servers] })
  const bus = await openBus({ servers: [servers], identity: 'alice' })
  const work_context = { objective: OBJECTIVE, session_id: 'bench', directory: '/bench' }
  const one = async () => {
    await alice.passOver({ subagent: 'audit', reason: 'bench', work_context })
  }
  /** How long after a return was heard the audit answers with its record; the 99th percentile of `n`. */
  const audited = async (n: number) => {
    const waits: number[] = []
    for (let i = 0; i < n; i += 1) {
      const handle = alice.passOver({ subagent: 'audit', reason: 'bench', work_context })
      await handle
      const heard = performance.now()
      for (;;) {
        const answer = (await bus.ask({ op: 'pass', id: handle.id, originator: 'alice' })) as { passes?: { status?: string }[] } | undefined
        if (JSON.stringify(answer ?? '').includes('"returned"') || JSON.stringify(answer ?? '').includes('"processed"')) break
      }
      waits.push(performance.now() - heard)
    }
    return waits.sort((a, b) => a - b)[Math.floor(n * 0.99)] ?? 0
  }
  return (command: Record<string, unknown>) =>
    typeof command.audit === 'number' ? audited(command.audit) : drive(one, command as unknown as Load)
}

async function worker(servers: string) {
  const audit = await connect({ agent: 'audit', servers: [servers] })
  await audit.onPass(() => 'done', { concurrency: 256 })
}

await serveRole<Options>(async ({ role, servers }) => {
  const env = { ...process.env, NATS_URL: servers, PASSOVER_POLICY: busyPolicyFile(), PASSOVER_LOG_LEVEL: 'error' }
  if (role === 'originator') {
    return originator(servers)
  }
  if (role === 'worker') await worker(servers)
  if (role === 'dispatcher') await runDispatcher(env)
  if (role === 'audit') {
    const running = await runAudit(env)
    return () => running.settled()
  }
  return async () => undefined
})
