import { openSync, writeSync } from 'node:fs'
import { connect, type Pass } from '@passover/sdk'
import { credentialsIn } from '../cluster/access.js'
import { plannedHandler } from '../load/planned-handler.js'
import { report, retryUntilDone, roleOptions } from './role.js'

/**
 * Works as one or more subagents by the plan in each objective. Logs the start of each run of a handler in the file `begun`, as
 * `<originator>/<subagent>/<id> <attempt>`, written synchronously so that a kill does not lose it. Logs the time of its start, of its abort signal
 * and of its end in the file `runs`.
 */
interface Options {
  servers: string
  folder?: string
  agents: string[]
  concurrency: number
  begun: string
  runs: string
  worker: string
}

const { servers, folder, agents, concurrency, begun, runs, worker } = roleOptions<Options>()
const file = openSync(begun, 'a')
const times = openSync(runs, 'a')
for (const name of agents) await retryUntilDone(() => start(name))
report('ready')

async function start(name: string): Promise<void> {
  const agent = await connect({ agent: name, servers, ...credentialsIn(folder, name) })
  try {
    await agent.onPass(work, { concurrency })
  } catch (error) {
    await agent[Symbol.asyncDispose]()
    throw error
  }
}

async function work(pass: Pass): Promise<string> {
  const { originator, subagent, id } = pass.key
  const run = `${originator}/${subagent}/${id} ${pass.attempt}`
  writeSync(file, `${run}\n`)
  const note = (what: 'began' | 'stopped' | 'over') => writeSync(times, `${run} ${what} ${Date.now()} ${worker}\n`)
  note('began')
  pass.signal.addEventListener('abort', () => note('stopped'), { once: true })
  try {
    return await plannedHandler(pass)
  } finally {
    note('over')
  }
}
