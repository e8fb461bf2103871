// Asks, and ends without waiting for the return.
import { connect } from '@passover/sdk'

const planner = await connect('planner', { durableReturns: true })
const handle = planner.passOver({ subagent: 'translator', reason: 'letter', work_context: { objective: 'good morning' } })
await handle.stored
console.log('asked', handle.id)
await planner[Symbol.asyncDispose]()
