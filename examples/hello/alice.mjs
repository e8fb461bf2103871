// alice.mjs: an agent that passes work over.
import { connect } from '@passover/sdk'

const alice = await connect('alice')
const output = await alice.passOver({ subagent: 'greeter', reason: 'politeness', work_context: { objective: 'world' } })
console.log(output.status, output.output)
await alice[Symbol.asyncDispose]()
