import type { Bus } from '@passover/bus'

export interface Load {
  /** The most places of one priority: a worker's place polls all three. */
  idle: number
  queued: number
  running: number
}

/** What waits for a subagent's workers, over its three priorities. */
export async function totalLoad(bus: Bus, subagent: string): Promise<Load> {
  const slots = await bus.workload(subagent)
  return {
    idle: Math.max(0, ...slots.map(({ idle }) => idle)),
    queued: slots.reduce((sum, { queued }) => sum + queued, 0),
    running: slots.reduce((sum, { running }) => sum + running, 0),
  }
}
