import { openSync, writeSync } from 'node:fs'
import { connect, type Pass } from '@passover/sdk'
import type { LoadPlan } from '../load-plan.js'
import { insist, say, told } from './role.js'

/**
 * Works as one or more subagents, by the plan in each objective. Every run of a handler is written down as it begins,
 * in a file that a kill does not lose: `<originator>/<subagent>/<id> <attempt>`.
 */
interface Options {
  servers: string
  agents: string[]
  concurrency: number
  /** Without it nothing is written down. */
  begun?: string
}

const { servers, agents, concurrency, begun } = told<Options>()
const file = begun === undefined ? undefined : openSync(begun, 'a')
for (const name of agents) await insist(() => start(name))
say('ready')

async function start(name: string): Promise<void> {
  const agent = await connect({ agent: name, servers })
  try {
    await agent.onPass(work, { concurrency })
  } catch (error) {
    await agent[Symbol.asyncDispose]()
    throw error
  }
}

async function work(pass: Pass): Promise<string> {
  const { originator, subagent, id } = pass.key
  if (file !== undefined) writeSync(file, `${originator}/${subagent}/${id} ${pass.attempt}\n`)
  const plan = JSON.parse(pass.objective) as LoadPlan
  await takeTime(plan.ms, plan.deaf ? undefined : pass.signal)
  if (plan.throws) throw new Error('as planned')
  if (plan.child) {
    const { to, waits, plan: below } = plan.child
    const child = pass.passOver({ subagent: to, reason: 'a part of it', work_context: { objective: JSON.stringify(below) } })
    // What became of a child is read from the stream; here the parent only waits for it.
    if (waits) await child.catch(() => undefined)
    else await child.stored.catch(() => undefined)
  }
  return `done in attempt ${pass.attempt}`
}

function takeTime(ms: number, signal: AbortSignal | undefined): Promise<void> {
  if (ms === 0) return Promise.resolve()
  return new Promise((resolve, reject) => {
    const over = () => reject(signal?.reason)
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', over)
      resolve()
    }, ms)
    if (signal?.aborted) over()
    signal?.addEventListener('abort', () => {
      clearTimeout(timer)
      over()
    })
  })
}
