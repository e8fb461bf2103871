import { PassOverError, type PassOverOptions, type WorkOutput } from '@passover/sdk'
import { agentHere, order, say, tellHealth } from './role.js'

/** An originator process: passes over what it is told to, and tells what came of it under the same tag. */

const agent = await agentHere()

async function tell(tag: unknown, result: Promise<WorkOutput>): Promise<void> {
  try {
    const { output, status, metadata } = await result
    await say('outcome', { tag, output, status, attempt: metadata.attempt })
  } catch (error) {
    const code = error instanceof PassOverError ? error.code : 'none'
    await say('outcome', { tag, code, message: String(error), context: error instanceof PassOverError ? error.context : undefined })
  }
}

async function serve(): Promise<never> {
  for (;;) {
    const told = await order('pass')
    const options = told.options as PassOverOptions
    for (let n = 0; n < Number(told.times ?? 1); n++) {
      const handle = agent.passOver(options)
      handle.stored.then(
        () => void say('stored', { tag: told.tag, id: handle.id }),
        () => undefined,
      )
      void tell(told.tag, handle)
    }
  }
}

async function serveHandles(): Promise<never> {
  for (;;) {
    const told = await order('handle')
    const handle = agent.handle(String(told.id), String(told.subagent))
    void tell(told.tag, handle)
    void handle.status().then(
      (status) => say('status', { tag: told.tag, status }),
      () => undefined,
    )
  }
}

await say('ready')
void tellHealth(() => agent.health())
void serve()
void serveHandles()
