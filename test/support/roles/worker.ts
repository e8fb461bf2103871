import { drainOnSignals, type Pass } from '@passover/sdk'
import { agentHere, faultHere, order, say, tellHealth } from './role.js'

/** A worker process. What its handler does is said by the pass's reason; each begun run is told before anything else of it happens. */

const name = process.env.WORKER ?? String(process.pid)
const PROPOSED = {
  type: 'file_modification' as const,
  path: 'a',
  old_content: 'old',
  new_content: 'new',
  reason: 'because',
  confidence: 'high' as const,
}
const later = (ms: number) => new Promise((done) => setTimeout(done, ms))

const DOES: Record<string, (pass: Pass, argument: string) => unknown> = {
  echo: () => undefined,
  /** Gives only half of it, which a person must release. */
  partly: () => undefined,
  /** Proposes to change a file. */
  propose: () => undefined,
  /** Waits for the order `release`; a later attempt does not. */
  wait: (pass) => (pass.attempt === 1 ? order('release') : undefined),
  sleep: (_, ms) => later(Number(ms)),
  /** Keeps the event loop busy in its first attempt, once it is told to. */
  block: async (pass, ms) => {
    if (pass.attempt > 1) return
    await order('block')
    const end = performance.now() + Number(ms)
    while (performance.now() < end);
  },
  /**
   * Blocks in its first attempt, then asks for a child and goes on for ever; in its second it waits for the order `release`, but where it is
   * to be lost.
   */
  stale: async (pass, ms) => {
    if (pass.attempt > 2) return
    await order(pass.attempt === 1 ? 'block' : 'release')
    if (pass.attempt > 1) return
    const end = performance.now() + Number(ms)
    while (performance.now() < end);
    const child = pass.passOver({ subagent: 'below', reason: 'echo', work_context: { objective: 'deeper' } })
    const code = await child.result().then(
      () => 'none',
      (error: { code?: string }) => error.code,
    )
    await say('child', { id: pass.id, code })
    await new Promise(() => undefined)
  },
  /** Ends its process: in the first attempt when it is told to, later soon. */
  poison: async (pass) => {
    await (pass.attempt === 1 ? order('poison') : later(50))
    process.kill(process.pid, 'SIGKILL')
  },
  /** Goes on in its first attempt until its process dies. Later ones take a while. */
  beside: async (pass) => {
    if (pass.attempt === 1) await new Promise(() => undefined)
    await later(100)
    await say('over', { id: pass.id })
  },
  /** Never ends in its first attempt, whatever its signal says. */
  stubborn: (pass) => (pass.attempt === 1 ? new Promise(() => undefined) : undefined),
  /** Passes on: `pass scout echo`, `pass scout pass fixer echo`. */
  pass: async (pass, rest) => {
    const [subagent = '', ...reason] = rest.split(' ')
    const child = await pass.passOver({ subagent, reason: reason.join(' '), work_context: { objective: 'deeper' } })
    await say('child', { id: pass.id, output: child.output })
  },
}

const agent = await agentHere({
  async at(point, key) {
    if (point === 'worker:after-return') await say('gave', { id: key.id })
    await faultHere(point, key.id)
  },
})
await agent.onPass(
  async (pass) => {
    await say('run', { id: pass.id, attempt: pass.attempt })
    const { signal } = pass
    signal.addEventListener('abort', () => void say('aborted', { id: pass.id, code: (signal.reason as { code?: string }).code }))
    const [does = '', ...rest] = pass.reason.split(' ')
    await DOES[does]?.(pass, rest.join(' '))
    const output = JSON.stringify({ by: name, attempt: pass.attempt, depth: pass.chain_depth, ancestors: pass.ancestors })
    if (does === 'propose') return { output, artifacts: [PROPOSED] }
    return does === 'partly' ? { status: 'partial' as const, output } : output
  },
  { drainMs: Number(process.env.DRAIN_MS ?? 10_000) },
)
drainOnSignals(agent)
await say('ready')
void tellHealth(() => agent.health())
