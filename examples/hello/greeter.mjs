// greeter.mjs: a subagent. Start more of these processes to handle more load.
import { onPass } from '@passover/sdk'

await onPass('greeter', async (pass) => `Hello, ${pass.objective}!`)
