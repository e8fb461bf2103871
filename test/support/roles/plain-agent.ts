import { connect, drainOnSignals } from '@passover/sdk'
import { say } from './role.js'

/** An agent as its user writes it: everything that it is told comes from its environment. */
const agent = await connect()
await agent.onPass(({ attempt, chain_depth: depth, ancestors }) => JSON.stringify({ by: 'plain', attempt, depth, ancestors }))
drainOnSignals(agent)
await say('ready')
