// Passes work over HTTP, as the agent that owns the token.
import { connectHttp } from '@passover/sdk/http'

const passover = connectHttp({ url: process.env.GATEWAY_URL ?? 'http://127.0.0.1:7420', token: process.env.TOKEN })
const request = { subagent: 'greeter', reason: 'politeness', work_context: { objective: 'HTTP' } }
const { output, error } = await passover.passes.create(request, { waitSeconds: 30 })
console.log(output ? `${output.status} ${output.output}` : error)
