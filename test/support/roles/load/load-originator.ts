import { BUILDER, type LoadRequest, planRequest, seededRandom } from '@passover/chaos'
import { type Agent, connect, PassOverError } from '@passover/sdk'
import { insist, optionsOf, pause, say } from './load-role.js'

/**
 * Asks for passes, one every `every_ms` and whatever became of those before, and tells what it was told of each:
 * `heard` with the pass's id and `ok`, or the error's code. `asked` when it has asked for all, `done` when all have settled.
 */
interface Options {
  servers: string
  agent: string
  passes: number
  every_ms: number
  seed: number
}

const { servers, agent: name, passes, every_ms, seed } = optionsOf<Options>()
const choices = seededRandom(seed)
const agent = await insist(() => connect({ agent: name, servers }))
say('ready')
const begun = performance.now()
const under = new Set<Promise<void>>()
for (let n = 0; n < passes; n += 1) {
  const wait = begun + n * every_ms - performance.now()
  if (wait > 0) await pause(wait)
  const one = run(agent, planRequest(choices), `given-${name}-${seed}-${n}`).finally(() => under.delete(one))
  under.add(one)
}
say('asked')
await Promise.all(under)
say('done')

async function run(by: Agent, what: LoadRequest, given: string): Promise<void> {
  const { plan, priority, timeout_ms, times, cancel_after_ms } = what
  const handles = Array.from({ length: times }, () =>
    by.passOver({
      subagent: BUILDER,
      reason: 'load',
      priority,
      timeout_ms,
      work_context: { objective: JSON.stringify(plan) },
      ...(times > 1 && { id: given }),
    }),
  )
  const told = handles.map(async (handle) => {
    const outcome = await handle.then(
      () => 'ok',
      (error: unknown) => (error instanceof PassOverError ? error.code : String(error)),
    )
    say('heard', { id: handle.id, outcome })
  })
  if (cancel_after_ms !== undefined) {
    await pause(cancel_after_ms)
    await handles[0]?.cancel('changed my mind').catch(() => undefined)
  }
  await Promise.all(told)
}
