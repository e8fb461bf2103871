import { openSync, writeSync } from 'node:fs'
import { plannedHandler } from '@passover/chaos'
import { connect, type Pass } from '@passover/sdk'
import { insist, optionsOf, say } from './load-role.js'

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

const { servers, agents, concurrency, begun } = optionsOf<Options>()
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
  return plannedHandler(pass)
}
