import type { Fault } from './fault.js'

/** kill -9 of one process; another one is started in its place at once. */
export const kill: Fault = async (arena, { target }) => {
  const actor = arena.actor(target)
  if (!actor) return { skipped: `there is no ${target}` }
  await actor.replace()
  await actor.ready()
  return { done: `kill -9 ${target}` }
}
