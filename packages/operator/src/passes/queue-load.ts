import type { Bus } from '@passover/bus'

export interface Load {
  /** Number of idle handler places. Each place polls all three priorities, so this is the highest count of the three. */
  idle: number
  queued: number
  running: number
}

/**
 * Returns the number of open passes in a subagent's queue. The queue may also contain work of passes that have ended, until a worker
 * discards it.
 *
 * @param open - Number of passes that are admitted and not ended, according to the audit service.
 */
export function openQueued({ queued, running }: Pick<Load, 'queued' | 'running'>, open: number): number {
  return Math.min(queued, Math.max(0, open - running))
}

/** Returns the load of a subagent's queue over its three priorities. */
export async function totalLoad(bus: Bus, subagent: string): Promise<Load> {
  const priorities = await bus.workload(subagent)
  return {
    idle: Math.max(0, ...priorities.map(({ idle }) => idle)),
    queued: priorities.reduce((sum, { queued }) => sum + queued, 0),
    running: priorities.reduce((sum, { running }) => sum + running, 0),
  }
}
