import { pause } from '../wait-for.js'
import type { Fault } from './fault.js'

/** kill -9 of one process; another one is started in its place at once. */
export const kill: Fault = async (arena, { target }) => {
  const actor = arena.actor(target)
  if (!actor) return { skipped: `there is no ${target}` }
  await actor.replace()
  await actor.ready()
  return { done: `kill -9 ${target}` }
}

/** SIGSTOP for a while, then SIGCONT: it goes on where it was, with a lease and connections that are long lost. */
export const freeze: Fault = async (arena, { target, for_ms }, stop) => {
  const actor = arena.actor(target)
  if (!actor) return { skipped: `there is no ${target}` }
  const { pid } = actor
  actor.freeze()
  await pause(for_ms, stop)
  // It may have been killed meanwhile, and another be in its place.
  if (actor.pid === pid) actor.thaw()
  return { done: `SIGSTOP ${target} for ${for_ms} ms` }
}
