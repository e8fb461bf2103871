import type { PassError, PassKey } from '@passover/schemas'
import { until } from '../processes/until.js'
import type { World } from './dispatcher.js'

/** Waits until a dispatcher has decided about each: which are open, and with what the others ended. */
export async function decided(world: World, keys: readonly PassKey[]): Promise<{ open: PassKey[]; errors: (PassError | undefined)[] }> {
  const stateOf = async (key: PassKey) => {
    const { state } = await world.journal(key)
    return state === 'none' ? undefined : state
  }
  const states = await Promise.all(keys.map((key) => until(() => stateOf(key), { what: 'it is decided', deadline_ms: 60_000 })))
  const ends = await Promise.all(keys.filter((_, at) => states[at] === 'done').map((key) => world.end(key)))
  return { open: keys.filter((_, at) => states[at] === 'open'), errors: ends.map(({ error }) => error) }
}
