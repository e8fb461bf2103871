// greeter.mjs: a subagent. Start more of these processes for a higher load.
import { onPass } from '@passover/sdk'

await onPass('greeter', async (pass) => `Hello, ${pass.objective}!`)
