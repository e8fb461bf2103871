import type { WorkSource } from '@passover/bus'
import { PassOverError } from '@passover/core'
import { type Priority, type RegisterQuestion, registerAnswer } from '@passover/schemas'
import { type Deps, sleep } from '../runtime/dependencies.js'

const TIMEOUT_MS = 10_000
const REQUEST_TIMEOUT_MS = 2_000
const RETRY_DELAY_MS = 250

/**
 * Registers the agent as a subagent with the dispatchers (decision 12), and retries until one answers. Without an answer it succeeds only if the
 * consumers exist already. Throws E013 if registration is closed and the name unknown, and E040 if no dispatcher answered.
 */
export async function register(deps: Deps, question: RegisterQuestion, sources: Record<Priority, WorkSource>): Promise<void> {
  const until = deps.clock.monotonic() + TIMEOUT_MS
  for (;;) {
    const answer = registerAnswer.safeParse(await ask(deps, question))
    if (answer.success && answer.data.ok) return
    if (answer.success && !answer.data.ok) throw PassOverError.from(answer.data.error)
    if (deps.clock.monotonic() >= until) break
    await sleep(deps.clock, RETRY_DELAY_MS)
  }
  if (await consumersExist(sources)) return
  const message = `no dispatcher answered within ${TIMEOUT_MS / 1000} s: "${deps.bus.identity}" could not be registered`
  throw new PassOverError('E040', message, { connected: deps.bus.connected })
}

async function ask(deps: Deps, question: RegisterQuestion): Promise<unknown> {
  try {
    return await deps.bus.ask(question, { service: 'register', timeout_ms: REQUEST_TIMEOUT_MS })
  } catch {
    return undefined
  }
}

async function consumersExist(sources: Record<Priority, WorkSource>): Promise<boolean> {
  try {
    const times = await Promise.all(Object.values(sources).map((source) => source.created()))
    return times.every((created) => created !== undefined)
  } catch {
    return false
  }
}
