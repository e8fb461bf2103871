import { PassOverError } from '@passover/sdk'
import { agentHere, dieHere, order, say } from './role.js'

/** An originator process that applies what it is told to. KILL_AT `point` or `point#n`: dies at the n-th passage of that point. */

const [killPoint, killNth = '1'] = (process.env.KILL_AT ?? '').split('#')
let passed = 0

const agent = await agentHere({
  async at(point) {
    if (point !== killPoint) return
    passed += 1
    if (passed < Number(killNth)) return
    await say('dies', { point })
    await dieHere()
  },
})

await say('ready')
for (;;) {
  const told = await order('apply')
  const { tag } = told
  try {
    const done = await agent.apply(String(told.id), { directory: String(told.directory) })
    await say('applied', { tag, done })
  } catch (error) {
    await say('applied', { tag, code: error instanceof PassOverError ? error.code : 'none', message: String(error) })
  }
}
