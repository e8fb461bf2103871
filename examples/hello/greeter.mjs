// greeter.mjs: a subagent. Start as many of these as the load needs.
import { onPass } from '@passover/sdk'

await onPass('greeter', async (pass) => `Hello, ${pass.objective}!`)
