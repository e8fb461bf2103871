// Gets the returns that came while no process of the agent ran. Ends after the first one.
import { connect } from '@passover/sdk'

const planner = await connect('planner', { durableReturns: true })
await planner.onDurableReturn(async ({ pass, output, error }) => {
  console.log(output ? `${pass.id} ${output.status}: ${output.output}` : `${pass.id} ${error.code}: ${error.message}`)
  // After this call the return counts as delivered, then the agent closes.
  setImmediate(() => planner[Symbol.asyncDispose]())
})
