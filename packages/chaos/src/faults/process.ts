import { pause } from '../wait-for.js'
import type { Fault } from './fault.js'

/** Kills one process with SIGKILL and starts it again at once. */
export const kill: Fault = async (topology, { target }) => {
  const actor = topology.actor(target)
  if (!actor) return { skipped: `there is no ${target}` }
  await actor.replace()
  await actor.ready()
  return { done: `kill -9 ${target}` }
}

/** Freezes a process with SIGSTOP and continues it later. It resumes where it was, although its lease and connections may be long lost. */
export const freeze: Fault = async (topology, { target, for_ms }, stop) => {
  const actor = topology.actor(target)
  if (!actor) return { skipped: `there is no ${target}` }
  const { pid } = actor
  actor.freeze()
  await pause(for_ms, stop)
  // It may have been killed and replaced in the meantime.
  if (actor.pid === pid) actor.thaw()
  return { done: `SIGSTOP ${target} for ${for_ms} ms` }
}
